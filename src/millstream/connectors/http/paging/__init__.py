"""The pages of a slice: how they are asked for, what they hold, and which is the last. Values in, values out."""
