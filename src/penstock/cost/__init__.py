"""The unit-time cost of window joins: model, weights of this machine, and how they are measured."""
