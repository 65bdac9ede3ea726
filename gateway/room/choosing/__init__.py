"""What a live room answers, and what it says: all of it pure, its clock an argument.

`comments`: what viewers send, and what can become of it.
`cleaning`: strangers' text, made fit to be read aloud and compared.
`safety`: words that are neither read nor answered; `words_en.txt` and `words_zh.txt` ship.
`likeness`: whether two comments ask the same.
`selection`: which of all that wait is answered next.
`gifts`: who is thanked, together and once in a while.
`phrases`: how a comment is put to the avatar, thanks, and the script for when nothing comes.
`host`: what is said next.
"""
