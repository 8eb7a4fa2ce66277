"""Attacks: guesses from what a party has and received. They know no method; whoever has the truth scores them."""
