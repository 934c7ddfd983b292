"""Scripted players."""
