"""Writes the pages whose text has changed."""

from scripts.reference import pages

for path, text in pages().items():
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
        print(f"Wrote {path}")
