"""What one visitor's session is made of: the record that `performer` and `ticks` are given."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.answers.answering import Answering
from gateway.api.hub import EventHub
from gateway.apps.unasked import Unasked
from gateway.background import Background
from gateway.ledger.stopwatch import Stopwatch
from gateway.playout.audience import Audience
from gateway.playout.playout import Playout
from gateway.session.presence import Presence
from gateway.stages.bus_feed import BusFeed
from gateway.stages.incoming import Unheard
from gateway.stages.stages import Stages
from gateway.talk.conversation import Conversation
from gateway.talk.interruption import Interruption
from visavis.wire.clock import Clock


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one session, which makes and ends them. No other session knows any of them."""

    conversation: Conversation
    """Decides; its actions say what is to be done."""
    playout: Playout
    """What leaves at the next tick."""
    interruption: Interruption
    stopwatch: Stopwatch
    stages: Stages
    """The four services, asked over leases. Its options are those of the session."""
    feed: BusFeed
    """The session's ends of the bus."""
    answering: Answering
    unasked: Unasked
    audience: Audience
    """Who sees and hears what leaves."""
    hub: EventHub
    """Who is told what happens."""
    presence: Presence
    """Whether anybody is there."""
    unheard: Unheard
    """Sound of the open turn, for a face that takes over."""
    background: Background
    clock: Clock
