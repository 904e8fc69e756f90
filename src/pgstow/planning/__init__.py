"""Planning: the cheapest layout for a goal, its bound, and its reasons."""
