// Passkeys: the only part of the console that needs JavaScript.
"use strict";

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

async function post(address, body) {
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
  return isJson ? response.json() : { problem: "This did not work. Load the page again, and try once more." };
}

async function answerOf(kind, options) {
  options.challenge = bytes(options.challenge);
  if (kind === "make") {
    options.user.id = bytes(options.user.id);
    options.excludeCredentials = options.excludeCredentials.map((each) => ({ ...each, id: bytes(each.id) }));
  }
  const made =
    kind === "make"
      ? await navigator.credentials.create({ publicKey: options })
      : await navigator.credentials.get({ publicKey: options });
  const response = { clientDataJSON: text(made.response.clientDataJSON) };
  if (kind === "make") {
    response.attestationObject = text(made.response.attestationObject);
  } else {
    response.authenticatorData = text(made.response.authenticatorData);
    response.signature = text(made.response.signature);
    response.userHandle = made.response.userHandle ? text(made.response.userHandle) : null;
  }
  return { id: made.id, rawId: text(made.rawId), type: made.type, response };
}

for (const part of document.querySelectorAll("[data-passkey]")) {
  const button = part.querySelector("button");
  const problem = part.querySelector(".problem");
  if (!window.PublicKeyCredential) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    problem.hidden = true;
    button.disabled = true;
    try {
      const options = await post(part.dataset.options, {});
      let result = options;
      if (options.challenge) {
        const name = part.querySelector("input[name=name]");
        const address = part.dataset.send + (name ? `?name=${encodeURIComponent(name.value)}` : "");
        result = await post(address, await answerOf(part.dataset.passkey, options));
      }
      if (result.go) {
        window.location.assign(result.go);
        return;
      }
      problem.textContent = result.problem;
    } catch (error) {
      problem.textContent = "The passkey was not used: you cancelled, or this device has none for this page.";
    }
    problem.hidden = false;
    button.disabled = false;
  });
}
