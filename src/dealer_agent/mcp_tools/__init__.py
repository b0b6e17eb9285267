"""The five skills as tools of the Model Context Protocol (docs/how-to/mcp.md).

`tools.py` is the table of the tools. `consent.py` asks the person before a lead is sent. `tool_server.py` answers the
calls with the official SDK, over HTTP and over stdio. What answers a skill is a function of the caller.
"""
