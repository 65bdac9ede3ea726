"""Answers that need no language model: configured ones, welcome phrases, learned ones."""
