"""Secrets and settings of jobs: encrypted where they are stored, named where they are used, masked where they are shown."""
