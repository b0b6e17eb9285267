"""The five skills as tools of an MCP server."""
