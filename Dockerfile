# docker build -t ouroboros . && docker run -p 7860:7860 ouroboros
FROM python:3.12-slim

# The native pass is compiled where it runs, for the processor that is there.
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 user
# hadolint ignore=DL3066
USER user
ENV HOME=/home/user PATH=/home/user/.local/bin:$PATH PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 \
    GRADIO_ANALYTICS_ENABLED=False HF_HUB_DISABLE_TELEMETRY=1
WORKDIR /home/user/app

COPY --chown=user requirements.txt .
# A package index with CPU builds of torch makes the image several gigabytes smaller; empty: the default index.
ARG TORCH_INDEX=""
# hadolint ignore=DL3013
RUN if [ -n "$TORCH_INDEX" ]; then pip install --user --index-url "$TORCH_INDEX" "$(grep '^torch' requirements.txt)"; fi \
 && pip install --user --requirement requirements.txt

# What fetches and converts the weights, and no more: a change anywhere else does not fetch them again.
COPY --chown=user ouroboros_core/__init__.py ouroboros_core/version.py ouroboros_core/errors.py ouroboros_core/locations.py ouroboros_core/progress.py \
  ouroboros_core/
COPY --chown=user ouroboros_core/loading/__init__.py ouroboros_core/loading/embedded.py ouroboros_core/loading/manifest.py \
  ouroboros_core/loading/
RUN python -m ouroboros_core.loading.embedded
COPY --chown=user . .

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/healthz', timeout=8)"]
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860"]
