"""The one place where moto is extended: operations that it lacks, and rules that it does not
enforce. Every client of the endpoint meets both. What the simulator asks during a request, by
`account.client`, reaches moto only.

A rule runs before moto's own operation; what follows its `yield`, if it has one, after it.
Parameters and answers are dicts in the shapes of botocore's models, and checked against them.
"""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from rehearsal.simulators.aws.account import GLOBAL, Account
from rehearsal.simulators.aws.refusal import Refusal, invalid

_log = logging.getLogger(__name__)

Params = dict[str, Any]
Operation = Callable[[Account, Params], Mapping[str, Any]]
Rule = Callable[[Account, Params], Iterator[None] | None]

_OPERATIONS: dict[tuple[str, str], Operation] = {}
_RULES: dict[tuple[str, str], list[Rule]] = {}
_WAITS: dict[tuple[str, str], Callable[[Account, Params], None]] = {}
_LISTS: list[Callable[["Account"], Iterator[str]]] = []
_READS = ("Describe", "List", "Get")
SECONDS = "x-simulated-seconds"
"""Header of an answer: how long in life what was begun takes, where that is longer than here."""


def operation(service: str, *names: str) -> Callable[[Operation], Operation]:
    """The function answers these operations, whatever moto would."""

    def register(function: Operation) -> Operation:
        _OPERATIONS.update({(service, name): function for name in names})
        return function

    return register


def rule(service: str, *names: str) -> Callable[[Rule], Rule]:
    """The function wraps these operations."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES.setdefault((service, name), []).append(function)
        return function

    return register


def waits(
    service: str, name: str
) -> Callable[[Callable[[Account, Params], None]], Callable[[Account, Params], None]]:
    """The function runs before this operation and may take its time: nobody waits for it."""

    def register(function: Callable[[Account, Params], None]) -> Callable[[Account, Params], None]:
        _WAITS[service, name] = function
        return function

    return register


def listed(function: Callable[["Account"], Iterator[str]]) -> Callable[["Account"], Iterator[str]]:
    """The function names what the account holds of its kind: `VPC vpc-...`, one line each, without
    what a fresh account has."""
    _LISTS.append(function)
    return function


def list_resources(account: "Account") -> Iterator[str]:
    """What an account holds, as one line for each thing."""
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
    """One page of a list: at most `most` of them after `after`, named as EKS does unless given."""
    first = int(params.get(after) or 0)
    last = first + (params.get(most) or 100)
    more = {after: str(last)} if last < len(names) else {}
    return {key: list(names[first:last]), **more}


class _FailedError(Exception):
    """moto itself refused; its answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


def install(account: Account) -> Callable[[], None]:
    """Every request passes here, until what this returns is called."""
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
        return answer(account, response, lambda: original(response))

    setattr(BaseResponse, "call_action", call_action)  # noqa: B010

    def restore() -> None:
        setattr(BaseResponse, "call_action", original)  # noqa: B010

    return restore


def answer(account: Account, response: Any, original: Callable[[], Any]) -> Any:
    """The answer to a request: status, headers and body."""
    service, name = response.boto3_service_name, response._get_action()
    # moto is one for the process: another account's requests, and those of its own decorators, are
    # not for this one's rules.
    if account.asking.depth or not name or response.parsed_url.port != account.port:
        return original()
    if wait := _WAITS.get((service, name)):
        wait(account, _parsed(response, (service, name)))
    with account.lock, account.asking:
        account.asking.response = response
        status, headers, body = _answer(account, response, (service, name), original)
    if int(status) < 400 and name.startswith(("Delete", "Release", "Terminate", "Cancel")):
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
            for each in rules:
                if inspect.isgeneratorfunction(each):
                    around.enter_context(contextmanager(each)(account, params))
                else:
                    each(account, params)
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
        return failed.answer
    except Refusal as error:
        refused = _error(error.code, error.message)
        status, headers, body = response.serialized(ActionResult(refused))
    except ServiceException as error:
        status, headers, body = response.serialized(ActionResult(error))
    except ClientError as error:  # of a service that this one asked
        found = error.response["Error"]
        refused = _error(found["Code"], found["Message"])
        status, headers, body = response.serialized(ActionResult(refused))
    except Exception as error:  # a defect of the simulator, which a client should see as one
        _log.exception("%s:%s", *key)
        refused = _error("InternalFailure", f"the simulator failed: {error!r}")
        status, headers, body = response.serialized(ActionResult(refused))
    return status, *response._enrich_response(headers | {"status": status}, body)


def _error(code: str, message: str) -> Exception:
    """What moto writes as an error of the service that answers."""
    from moto.core.exceptions import ServiceException

    # moto looks for the service of an error in its class's module.
    kind: type[Exception] = type("Error", (ServiceException,), {"__module__": __name__})
    return kind(code, message)


@cache
def _model(key: tuple[str, str]) -> Any:
    from moto.core.utils import get_service_model

    return get_service_model(key[0]).operation_model(key[1])


def _parsed(response: Any, key: tuple[str, str]) -> Params:
    """The request's parameters; raises Refusal if they do not fit botocore's model."""
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
