"""What AWS offers and asks for it: DescribeInstanceTypes and the Price List, page by page."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pgstow.model.errors import HostError, UserError

PRICE_LIST_REGION = "us-east-1"  # one of the few where the Price List answers, for all regions
_REMEDIES = {
    "UnauthorizedOperation": "allow {action} to this identity",
    "AccessDeniedException": "allow {action} to this identity",
    "AuthFailure": "check AWS_PROFILE, and that the region is enabled for the account",
    "UnrecognizedClientException": "check the credentials: aws sts get-caller-identity",
    "InvalidClientTokenId": "check the credentials: aws sts get-caller-identity",
    "ExpiredTokenException": "log in again: aws sso login",
}
_CONNECT_S, _READ_S = 10, 60


def instance_types(region: str) -> Iterator[dict[str, Any]]:
    """Each entry of DescribeInstanceTypes in a region."""
    pages = _pages("ec2", region, "describe_instance_types", {}, "ec2:DescribeInstanceTypes")
    for page in pages:
        yield from page.get("InstanceTypes", [])


def products(service: str, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Each product of the Price List whose attributes are these, as GetProducts answers."""
    request = {
        "ServiceCode": service,
        "FormatVersion": "aws_v1",
        "Filters": [
            {"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()
        ],
    }
    for page in _pages(
        "pricing", PRICE_LIST_REGION, "get_products", request, "pricing:GetProducts"
    ):
        for text in page.get("PriceList", []):
            yield json.loads(text) if isinstance(text, str) else text


def _pages(
    service: str, region: str, operation: str, request: dict[str, Any], action: str
) -> Iterator[dict[str, Any]]:
    """The pages of an answer; credentials and endpoint are found as every AWS program does."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise HostError("AWS's library is not installed", "pip install 'pgstow[aws]'") from None
    settings = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "max_attempts": 3},
    )
    try:
        client = boto3.client(service, region_name=region, config=settings)
        yield from client.get_paginator(operation).paginate(**request)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "refused"))
        remedy = _REMEDIES.get(code, "see the policy of this identity: aws sts get-caller-identity")
        raise UserError(
            f"{action} in {region} is refused: {code}", remedy.format(action=action)
        ) from None
    except BotoCoreError as error:
        reason = " ".join(str(error).split())
        remedy = "check AWS_PROFILE, and that this machine has credentials and reaches AWS"
        raise UserError(f"{action} in {region} failed: {reason}", remedy) from None
