"""Summarizers: what turns a SummaryRequest into text."""
