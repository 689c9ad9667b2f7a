"""The code of jobs: archives by their sha256, checked before anything of them is unpacked, and removed when nobody needs them."""
