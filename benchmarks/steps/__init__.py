"""Agents that take a step, think, and take another: what each step costs them and the machine."""
