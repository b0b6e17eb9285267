"""Writes the pages whose text has changed, and the copy of ARCHITECTURE.md that the site shows."""

from scripts.reference import architecture_page, pages

for path, text in {**pages(), **architecture_page()}.items():
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
        print(f"Wrote {path}")
