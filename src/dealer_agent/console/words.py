"""The words of the console that are not in its templates."""

SAID = {
    "signed-out": "You are signed out.",
    "passkey-added": "The passkey is added.",
    "passkey-removed": "The passkey is removed.",
    "password-set": "The password is set.",
    "codes-on": "One-time codes are on.",
    "session-ended": "The session is ended.",
    "invited": "The invitation is made.",
    "role-changed": "The role is changed.",
    "person-removed": "The person is removed, and their sessions are ended.",
    "settings-saved": "The settings are saved. The service uses them within two seconds.",
    "settings-saved-restart": "The settings are saved. Some of them hold only after the service is started again.",
}
"""What a page says after an act, by the word in the query."""

WRONG_SIGN_IN = (
    "This did not work. Check the e-mail address, the password and the code. A code works once, and for half a minute."
)
WRONG_PASSKEY = "This passkey is not known here. Sign in with another one, or ask an owner to invite you again."
TOO_MANY = "Too many attempts. Please wait {} seconds, then try again."
BAD_INVITATION = "This link does not work: it was used, it is older than a day, or it is not complete."
FOREIGN_PAGE = "This form was not sent from a page of this console. Open the console again, and repeat what you did."
NEEDS_TLS = (
    "The console needs https. Set public_url to the https address of this service in the settings. Without https it "
    "answers only on the machine itself, at http://localhost."
)
BUSY = "The console is busy. Please try again in a few seconds."
NOT_FOUND = "There is no such page. It may have been removed, or the address is not complete."
DATABASE_AWAY = "The database does not answer at the moment. Nothing was changed. Please try again in a minute."
LAST_WAY = "This is your last way to sign in. Add another passkey, or a password, first."
WRONG_CODE = "This is not the code of now. Scan the picture with your app, and type the six digits that it shows."
FAILED = "The service could not do this. Please try again. If it happens again, tell whoever looks after the service."
