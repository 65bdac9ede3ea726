"""One visitor's session: what `talk` decides is carried out on bus, stages and playout.

`sessions`: all that are open, made, found and ended.
`session`: one of them: how it begins, goes on elsewhere and ends, and what is asked of it.
`parts`: what it is made of.
`performer`: carries out what the conversation decides.
`ticks`: what happens in it every 20 ms.
`presence`: whether anybody is there, and here; else the session holds no slot of any stage.
"""
