"""Who belongs to a stack: neither side of a call takes the other's word for it.

`proof`: what shows that one knows the stack's secret, and does not tell it. Pure.
`access`: with what a process shows that it belongs: the secret, and certificates where there are.
`channel`: how the gateway and the tools call a service, and the door by which their calls come in.
"""
