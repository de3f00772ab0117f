"""The tabs of the page, a file each, and the inputs they share."""
