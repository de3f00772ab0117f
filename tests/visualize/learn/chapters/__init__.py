"""Tests of the chapters."""
