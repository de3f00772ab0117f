"""The picture of one run: text, tree, timeline, charts, replay, export."""
