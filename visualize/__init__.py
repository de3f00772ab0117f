"""Pictures of traces; importing this never imports torch, transformers or gradio."""
