"""The cloud's own interfaces: the only package that uses boto3."""

from pgstow.cloud.secrets import Secret, read_secret

__all__ = ["Secret", "read_secret"]
