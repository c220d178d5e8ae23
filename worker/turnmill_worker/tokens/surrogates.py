"""Text made fit for a tokenizer."""


def mended(text: str) -> str:
    """Return `text` as valid Unicode: surrogate pairs joined, lone surrogates become U+FFFD.

    This is what tiktoken does with such text (`Encoding.encode`), so counts stay identical.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
