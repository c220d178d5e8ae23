"""What tests and demos need beside turnmill itself: a model endpoint that never leaves the machine.

::

    with FakeEndpoint(latency_s=0.8) as endpoint:
        endpoint.fail_next("429", "timeout")
        ...  # talk to endpoint.base_url with any OpenAI client
        assert endpoint.requests[0].path == "/v1/chat/completions"
"""

from turnmill.testing.api_shapes import Recorded
from turnmill.testing.batch_api import BatchFault
from turnmill.testing.endpoint import FakeEndpoint
from turnmill.testing.faults import FAULTS, Fault

__all__ = ["FAULTS", "BatchFault", "FakeEndpoint", "Fault", "Recorded"]
