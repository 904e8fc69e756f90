"""Passwords from AWS Secrets Manager: kept in memory, shown to nobody."""

import json
from dataclasses import dataclass, field

from pgstow.model.errors import HostError, UserError

_ARN_REGION = 3  # arn:aws:secretsmanager:REGION:…
_REMEDIES = {
    "ResourceNotFoundException": "check its name and the region (AWS_REGION)",
    "AccessDeniedException": "allow secretsmanager:GetSecretValue on it",
    "DecryptionFailure": "allow kms:Decrypt with its key",
}


@dataclass(frozen=True, slots=True)
class Secret:
    """A database's password and whose it is, if the secret says."""

    password: str = field(repr=False)
    user: str | None = None


def read_secret(name: str, region: str | None = None) -> Secret:
    """Read a secret by its name or ARN: the form that RDS keeps (JSON with ``username`` and
    ``password``), or a text that is the password itself.

    Credentials and endpoint are found as every AWS program finds them.
    """
    text = _value(name, region or _region_of(name))
    try:
        known = json.loads(text)
    except ValueError:
        return Secret(text)
    if not isinstance(known, dict):
        return Secret(text)
    password, user = known.get("password"), known.get("username")
    if not isinstance(password, str):
        raise UserError(f"secret {name} has no password in it", "name one that RDS made")
    return Secret(password, user if isinstance(user, str) else None)


def _region_of(name: str) -> str | None:
    """The region in an ARN.

    >>> _region_of("arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf")
    'eu-west-1'
    """
    return name.split(":")[_ARN_REGION] if name.startswith("arn:") else None


def _value(name: str, region: str | None) -> str:
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise HostError("AWS's library is not installed", "pip install 'pgstow[aws]'") from None
    try:
        client = boto3.client("secretsmanager", region_name=region)
        found = client.get_secret_value(SecretId=name)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "refused"))
        remedy = _REMEDIES.get(code, "see the policy of this identity: aws sts get-caller-identity")
        raise UserError(f"secret {name} cannot be read: {code}", remedy) from None
    except BotoCoreError as error:
        reason = " ".join(str(error).split())
        remedy = "check AWS_REGION and AWS_PROFILE, and that this machine has credentials"
        raise UserError(f"secret {name} cannot be read: {reason}", remedy) from None
    if "SecretString" not in found:
        raise UserError(f"secret {name} is binary", "name one that holds text")
    return str(found["SecretString"])
