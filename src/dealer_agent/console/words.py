"""The words of the console that are not in its templates."""

SAID = {
    "signed-out": "You are signed out.",
    "passkey-added": "The passkey is added.",
    "passkey-removed": "The passkey is removed.",
    "password-set": "The password is set.",
    "session-ended": "The session is ended.",
    "role-changed": "The role is changed.",
    "lead-marked": "The lead is marked.",
    "note-added": "The note is added.",
    "sent-again": "It is sent again now.",
    "tried-again": "The deliveries of the lead are tried again now.",
    "lead-released": "The lead is released. The service sends it now.",
    "lead-released-late": (
        "The lead is released. The time of a visit passed while it waited: agree on another time with the customer."
    ),
    "lead-refused": "The lead is refused. Its visits are cancelled, and nobody is notified.",
    "visit-mailed": "The visit is changed. CRM and staff are notified, and the customer gets a mail.",
    "visit-not-mailed": (
        "The visit is changed. CRM and staff are notified. The customer gets no mail: call the customer."
    ),
    "visit-nobody": "The visit is changed. Nobody is notified: you must do it.",
    "visit-closed": "This is recorded, and the CRM is notified.",
    "withdrawn": "The withdrawal is recorded for all leads of the customer. Receivers of the leads are notified.",
    "person-removed": "The person is removed, and their sessions are ended.",
    "settings-saved": "The settings are saved. The service uses them within two seconds.",
    "settings-saved-restart": "The settings are saved. Some of them take effect only after the service is started "
    "again.",
    "unit-released": "The unit is released. Agents see it as the feed gives it within two seconds.",
    "unit-hidden": "The unit is hidden. Agents do not see it, whatever the feed says, until you release it.",
    "file-discarded": "The file is deleted. Nothing was changed.",
    "hold-extended": "The hold is extended. The agent learns it when it asks for the status.",
    "hold-ended": "The hold is ended. The agent learns it when it asks for the status.",
    "policy-changed": "The policy is changed. The service uses it within two seconds.",
    "token-revoked": "The token is revoked. The service refuses it within two seconds.",
    "import-undone": "The import is undone. Agents see the stock before it within two seconds.",
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
WRONG_CODE = "This code is not the current one. Scan the picture with your app, and type the six digits that it shows."
FILE_IS_GONE = (
    "This file is not here any more. A file is kept for an hour, and only on the machine that received it. "
    "Choose it again."
)
FILE_IS_ELSEWHERE = (
    "This machine does not have the file any more, or another machine received it. Export the inventory again, and "
    "drop the file into the page of imports."
)
FILE_IS_BEING_READ = "The file is still being read. Wait until its page says what it changes."
FAILED = "The service could not do this. Please try again. If it happens again, tell the person who runs the service."
VALUE_TOO_DEEP = (
    "This value has too many brackets inside one another. Nothing was changed. Write a value that is allowed here."
)
FILE_TOO_DEEP = (
    "The settings have too many brackets inside one another. Nothing was changed. Look for a line with many opening "
    "brackets, and remove them."
)
