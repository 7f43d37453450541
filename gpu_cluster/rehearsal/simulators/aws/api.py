"""The one place where moto is extended: operations that it lacks, and rules that it does not
enforce. They apply to every client of the endpoint. Calls that the simulator makes during a
request, through `account.client`, reach only moto.

A rule runs before moto's operation; the code after its `yield`, if it has one, runs after it.
Parameters and responses are dicts in the shapes of botocore's models, and are checked against them.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import GLOBAL, Account
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid

_log = logging.getLogger(__name__)

Params = dict[str, Any]
Operation = Callable[[Account, Params], Mapping[str, Any]]
Rule = Callable[[Account, Params], Iterator[None] | None]

_OPERATIONS: dict[tuple[str, str], Operation] = {}
_RULES: dict[tuple[str, str], list[Rule]] = {}
_WAITS: dict[tuple[str, str], Callable[[Account, Params], None]] = {}
_LISTS: list[Callable[["Account"], Iterator[str]]] = []
_PYTHON = re.compile(r"[{[]'([\w-]+)'[}\]]")
"""A set or list of one ID, as moto prints it in messages."""
_READS = ("Describe", "List", "Get")
_DELETES = ("Delete", "Release", "Terminate", "Cancel")
_OF_PARTS = (
    "DeleteTags", "DeleteRoute", "DeleteNetworkAclEntry", "DeleteLaunchTemplateVersions",
)  # fmt: skip
"""Operations after which what they name still exists."""
SECONDS = "x-simulated-seconds"
"""Response header with the real duration of what was started, if that is longer than here."""


def operation(service: str, *names: str) -> Callable[[Operation], Operation]:
    """Registers a function that implements these operations instead of moto."""

    def register(function: Operation) -> Operation:
        for name in names:
            assert _OPERATIONS.setdefault((service, name), function) is function, name
        return function

    return register


def rule(service: str, *names: str) -> Callable[[Rule], Rule]:
    """Registers a function that wraps these operations."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES.setdefault((service, name), []).append(function)
        return function

    return register


def waits(
    service: str, name: str
) -> Callable[[Callable[[Account, Params], None]], Callable[[Account, Params], None]]:
    """Registers a function that runs before this operation, without a lock: it may wait."""

    def register(function: Callable[[Account, Params], None]) -> Callable[[Account, Params], None]:
        _WAITS[service, name] = function
        return function

    return register


def listed(function: Callable[["Account"], Iterator[str]]) -> Callable[["Account"], Iterator[str]]:
    """Registers a function that lists the account's resources of one type: `VPC vpc-...`, one line
    each, without those of a fresh account."""
    _LISTS.append(function)
    return function


def list_resources(account: "Account") -> Iterator[str]:
    """The account's resources, one line each."""
    for function in _LISTS:
        yield from function(account)


def page(
    params: Params,
    key: str,
    names: Sequence[Any],
    *,
    after: str = "nextToken",
    most: str = "maxResults",
) -> dict[str, Any]:
    """One page of a list: at most `most` items after `after`, by default named as in EKS."""
    first = int(params.get(after) or 0)
    last = first + (params.get(most) or 100)
    more = {after: str(last)} if last < len(names) else {}
    return {key: list(names[first:last]), **more}


class _FailedError(Exception):
    """moto itself refused; contains its response."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


def install(account: Account) -> Callable[[], None]:
    """Routes every request through this module until the returned function is called."""
    from moto.core.responses import BaseResponse
    from moto.eks import urls
    from moto.resourcegroups import urls as resourcegroups

    original = BaseResponse.call_action
    for path in (
        "/clusters/(?P<name>[^/]+)/(?P<rest>.+)$",
        "/cluster-versions$",
        "/addons/supported-versions$",
        "/access-policies$",
    ):
        urls.url_paths.setdefault("{0}" + path, urls.response.dispatch)
    groups = resourcegroups.url_paths["{0}/get-group$"]
    resourcegroups.url_paths.setdefault("{0}/list-group-resources$", groups)

    def call_action(response: Any) -> Any:
        return answer_request(account, response, lambda: original(response))

    setattr(BaseResponse, "call_action", call_action)  # noqa: B010

    def restore() -> None:
        setattr(BaseResponse, "call_action", original)  # noqa: B010

    return restore


def answer_request(account: Account, response: Any, original: Callable[[], Any]) -> Any:
    """The response to a request: status, headers and body."""
    service, name = response.boto3_service_name, response._get_action()
    # moto exists once per process: these rules do not apply to another account's requests, or to
    # those of its own decorators.
    if account.asking.depth or not name or response.parsed_url.port != account.port:
        return original()
    if wait := _WAITS.get((service, name)):
        wait(account, _parsed(response, (service, name)))
    with account.lock, account.asking:
        account.asking.response = response
        status, headers, body = _answer(account, response, (service, name), original)
    if int(status) < 400 and name.startswith(_DELETES) and name not in _OF_PARTS:
        account.deleted.update(*response.querystring.values())
    if int(status) < 400 and not name.startswith(_READS):
        account.changed()
    return status, headers, body


def _answer(
    account: Account, response: Any, key: tuple[str, str], original: Callable[[], Any]
) -> Any:
    from botocore.exceptions import ClientError
    from moto.core.exceptions import ServiceException
    from moto.core.responses import ActionResult

    own, rules = _OPERATIONS.get(key), _RULES.get(key, ())
    try:
        if key[0] not in GLOBAL:
            account.open(response.region)
        if planned := account.faults.errors.get(":".join(key)):
            code, _, words = planned.pop(0).partition(": ")
            raise Refusal(code, words)
        by_pod = response.get_access_key() in account.pods
        params = _parsed(response, key) if own or rules or by_pod else {}
        if by_pod:
            account.authorize(*key, params)
        with ExitStack() as around:
            for law in rules:
                if inspect.isgeneratorfunction(law):
                    around.enter_context(contextmanager(law)(account, params))
                else:
                    law(account, params)
            if own is None:
                found = original()
                if int(found[0]) >= 400:
                    raise _FailedError(found)
                return found
            result = dict(own(account, params))
            lasts = result.pop(SECONDS, None)
            _check(key, "output_shape", result)
        status, headers, body = response.serialized(ActionResult(result))
        if lasts:
            headers[SECONDS] = str(lasts)
    except _FailedError as failed:
        status, headers, body = failed.answer
        text = body.decode() if isinstance(body, bytes) else str(body)
        plain = _PYTHON.sub(r"\1", text)
        if plain == text:
            return failed.answer
        return status, {**headers, "Content-Length": str(len(plain.encode()))}, plain
    except Refusal as error:
        refused = _error(error.code, error.message)
        status, headers, body = response.serialized(ActionResult(refused))
    except NotImplementedError:
        refused = _error("InvalidAction", f"a simulated account does not have {':'.join(key)}")
        status, headers, body = response.serialized(ActionResult(refused))
    except ServiceException as error:
        status, headers, body = response.serialized(ActionResult(error))
    except ClientError as error:  # from a service that this one called
        found = error.response["Error"]
        refused = _error(found["Code"], found["Message"])
        status, headers, body = response.serialized(ActionResult(refused))
    except Exception as error:  # a defect of the simulator, which a client should see as such
        _log.exception("%s:%s", *key)
        refused = _error("InternalFailure", f"the simulator failed: {error!r}")
        status, headers, body = response.serialized(ActionResult(refused))
    return status, *response._enrich_response(headers | {"status": status}, body)


def _error(code: str, message: str) -> Exception:
    """The exception that moto turns into an error of the responding service."""
    from moto.core.exceptions import ServiceException

    # moto derives an error's service from its class's module.
    kind: type[Exception] = type("Error", (ServiceException,), {"__module__": __name__})
    return kind(code, message)


@cache
def _model(key: tuple[str, str]) -> Any:
    from moto.core.utils import get_service_model

    return get_service_model(key[0]).operation_model(key[1])


def _parsed(response: Any, key: tuple[str, str]) -> Params:
    """The request's parameters; raises Refusal if they do not match botocore's model."""
    from moto.core.parse import PROTOCOL_PARSERS
    from moto.core.request import determine_request_protocol

    request, model = response.normalized_request, _model(key)
    protocol = determine_request_protocol(model.service_model, request.content_type)
    params: Params = PROTOCOL_PARSERS[protocol](model).parse({
        "method": request.method,
        "values": request.values,
        "headers": request.headers,
        "body": request.data,
        "url_path": request.path,
        "url_params": response.uri_match,
    })  # fmt: skip
    if key in _OPERATIONS:
        _check(key, "input_shape", params)
    return params


def _check(key: tuple[str, str], which: str, value: Any) -> None:
    from botocore.validate import ParamValidator

    shape = getattr(_model(key), which)
    if shape is None:
        return
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        if which == "output_shape":  # a defect of the simulator itself
            raise AssertionError(f"{key}: {report.generate_report()}")
        words = "; ".join(line.strip() for line in report.generate_report().splitlines())
        raise invalid(words)
