"""The offline summarizer: keeps the sentences, calls and values that later turns will need.

No model, no network, no clock: the same turns, budget and tokenizer give the same bytes, in any
process. Each line of a summary opens with the seq and the speaker it came from:

    12 user: cancel order #W1234567 but not the other one
    13 call get_order: order_id=#W1234567
    14 result get_order: status=pending; items: name=T-Shirt item_id=9523456873 price=46.66
"""

from turnmill_worker.summarizers.extractive.summarizer import extract

__all__ = ["extract"]
