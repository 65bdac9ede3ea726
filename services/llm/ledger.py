"""What one answer took, and the metrics made of it."""

from __future__ import annotations

from dataclasses import dataclass

from visavis import metrics


@dataclass(slots=True)
class Ledger:
    """Seconds count from the request; tokens are the backend's. None: it did not come to that."""

    queue_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""

    def seconds(self) -> dict[str, float]:
        """For TurnFinished: stage to seconds since the request."""
        steps = {"queue": self.queue_s, "first_token": self.first_token_s, "generate": self.total_s}
        return {name: seconds for name, seconds in steps.items() if seconds is not None}

    def observe(self) -> None:
        """Count this answer in the service's metrics. Call it once, when the answer is over."""
        if self.queue_s is not None:
            metrics.llm_queue_seconds.observe(self.queue_s, metrics.exemplar())
        if self.first_token_s is not None:
            metrics.llm_ttft_seconds.observe(self.first_token_s, metrics.exemplar())
        metrics.llm_tokens.labels("read").inc(max(0, self.prompt_tokens - self.cached_tokens))
        metrics.llm_tokens.labels("written").inc(self.completion_tokens)
