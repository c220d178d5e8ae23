"""What an agent's author would otherwise take, each as its own documentation uses it.

These run in an environment of their own (``requirements.txt``): nothing here may import turnmill.
"""
