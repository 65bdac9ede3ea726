"""What a visitor asks: short and long, with and without a pause at a comma."""

from __future__ import annotations

ENGLISH = (
    "What is the capital of France?",
    "How are you today?",
    "Can you tell me what the weather is usually like in spring?",
    "Who wrote Romeo and Juliet?",
    "If I have only one day in London, what should I see first?",
    "How do I bake a simple loaf of bread?",
    "Why is the sky blue?",
    "Excuse me, where is the nearest railway station?",
    "What do you like most about your work?",
    "How many people live in Tokyo?",
    "Could you please explain how a bicycle stays upright?",
    "Is it possible to travel to Mars?",
    "When was the telephone invented, and who invented it?",
    "What should I cook for dinner tonight?",
    "Do you speak any other languages?",
    "How long does it take to fly from New York to Paris?",
    "I would like to learn to swim, how should I start?",
    "What is the largest animal in the world?",
    "Can you recommend a good book for a rainy evening?",
    "What is your name?",
    "How does a microwave oven heat my food?",
    "Why do leaves change their colour in autumn?",
    "What time do most museums open in the morning?",
    "Please tell me a short story about a dragon.",
    "How far away is the moon from the earth?",
    "What can I do when I cannot sleep at night?",
    "Is coffee good or bad for my health?",
    "Well, what would you do with a million dollars?",
    "How many players are there in a football team?",
    "Which planet is closest to the sun?",
    "My computer is very slow, what can I do about it?",
    "What is the difference between a crocodile and an alligator?",
    "Who was the first person on the moon?",
    "How do birds find their way in winter?",
    "Can plants grow without any sunlight?",
    "What is a healthy breakfast for a child?",
    "Tell me, how old are you?",
    "Where do penguins live?",
    "How can I remember the names of people I meet?",
    "What is the fastest way to learn a new language?",
    "Why do cats sleep so much?",
    "What should I take with me for a walk in the mountains?",
    "How do you make a good cup of tea?",
    "Do fish ever drink water?",
)

MANDARIN = (
    "请问你叫什么名字？",
    "北京有哪些好玩的地方？",
    "今天晚上我应该做什么菜？",
    "天空为什么是蓝色的？",
    "怎么样才能学好英语？",
    "你好，请问火车站在哪里？",
    "世界上最大的动物是什么？",
    "如果我只有一天的时间，应该先去哪里？",
    "月亮离地球有多远？",
    "请给我讲一个关于龙的小故事。",
    "晚上睡不着觉怎么办？",
    "猫为什么这么喜欢睡觉？",
)

SPEEDS = (1.0, 0.9, 1.1, 1.2)
"""Taken in turn: people do not all speak at one pace."""

BACKCHANNELS = ("Mm-hm.", "Uh-huh.", "Yeah.", "Okay.", "Right.")
"""What a listener says without wanting the floor."""

INTERRUPTIONS = (
    "Stop, please stop talking now.",
    "Wait a moment, I have another question.",
    "No, that is not what I meant.",
    "Sorry, can I ask you something else?",
)
