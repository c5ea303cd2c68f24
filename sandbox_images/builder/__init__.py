"""Makes a sandbox image from Debian packages and wheels, without a container registry. Driven by `build.py`.

Knows nothing of the service: the two meet only in the images directory (`<name>/rootfs/` and `<name>/image.json`).
"""
