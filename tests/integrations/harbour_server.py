"""An MCP server on standard input and output, with one tool."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("harbour")


@server.tool()
def find_owner(ship: str) -> str:
    """Who owns the ship that has this name, and where the owner can be reached by post."""
    return f"Anna Berg owns {ship}."


if __name__ == "__main__":
    server.run()
