"""The version of this package."""

VERSION = "2.0.0"
