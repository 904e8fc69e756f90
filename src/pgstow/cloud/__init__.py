"""The cloud's own interfaces: the only package that uses boto3."""

from pgstow.cloud.offers import instance_types, products
from pgstow.cloud.secrets import Secret, read_secret

__all__ = ["Secret", "instance_types", "products", "read_secret"]
