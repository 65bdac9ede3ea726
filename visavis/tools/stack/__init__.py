"""A whole stack on one machine: nats-server, four services, the gateway."""
