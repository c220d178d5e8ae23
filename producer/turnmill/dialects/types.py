"""The types of blocks, items and parts that only one dialect has."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANTHROPIC_BLOCKS",
    "ANTHROPIC_OPAQUE",
    "ANTHROPIC_SHOWN",
    "RESPONSES_CALLS",
    "RESPONSES_ITEMS",
    "RESPONSES_OPAQUE",
    "RESPONSES_PARTS",
    "RESPONSES_RESULTS",
]

ANTHROPIC_OPAQUE: Final = frozenset(
    {
        *("thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result"),
        *("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
        *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "container_upload", "compaction"),
    }
)
"""Blocks of an assistant that are carried along as they are."""

ANTHROPIC_SHOWN: Final = frozenset({"image", "document", "search_result", "container_upload"})
ANTHROPIC_BLOCKS: Final = ANTHROPIC_OPAQUE | ANTHROPIC_SHOWN | {"tool_use", "tool_result"}
"""Blocks that no other dialect has."""

RESPONSES_OPAQUE: Final = frozenset(
    {
        *("reasoning", "compaction", "compaction_summary", "item_reference", "web_search_call"),
        *("file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_call"),
        *("tool_search_output", "additional_tools", "configuration_update", "compaction_trigger"),
        *("program", "program_output"),
    }
)
"""Items that need no other item: they are carried along as they are."""

RESPONSES_CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""Calls that an agent answers, and the type of the item that does."""

RESPONSES_RESULTS: Final = frozenset(RESPONSES_CALLS.values())
RESPONSES_ITEMS: Final = RESPONSES_OPAQUE | RESPONSES_RESULTS | RESPONSES_CALLS.keys()
"""Types of items that no other dialect has."""

RESPONSES_PARTS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
"""Types of parts that no other dialect has."""
