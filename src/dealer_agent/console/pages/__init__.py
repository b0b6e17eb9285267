"""The pages of the console: one module for each subject. A page is a function of a request."""
