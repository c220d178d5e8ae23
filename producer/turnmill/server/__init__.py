"""``turnmill serve``: the client's calls over HTTP, for agents in any language."""
