"""What the transport pages demand of a server, sentence by sentence, and the tests that hold it to that.

Sentences are shortened. Pages: `streamable-http` and `versioning` of 2026-07-28, `transports` of the revision named.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

CLAUSES = """
# 2026-07-28, streamable-http
MUST provide a single path that supports POST
    transports/http/test_stateless.py::test_a_request_is_answered_with_one_json_object
MUST validate Origin, 403 when invalid
    transports/http/intake/test_guard.py::test_another_origin_is_refused_by_default
SHOULD bind only to localhost
    transports/http/test_run.py::test_it_listens_on_this_machine_alone
a notification: MUST return 202 with no body
    transports/http/test_stateless.py::test_a_notification_is_accepted_without_a_body
cannot accept it: MUST return an error status
    transports/http/test_stateless_errors.py::test_what_is_neither_request_nor_notification_is_invalid
a request: MUST return JSON
    transports/http/test_stateless.py::test_a_request_is_answered_with_one_json_object
or an event stream
    transports/http/test_answers.py::test_what_a_handler_says_first_makes_a_stream
notifications MUST relate to the request
    transports/http/test_answers.py::test_what_a_handler_says_first_makes_a_stream
the response SHOULD terminate the stream
    transports/http/test_answers.py::test_what_a_handler_says_first_makes_a_stream
SHOULD include X-Accel-Buffering: no
    transports/http/test_answers.py::test_what_a_handler_says_first_makes_a_stream
encouraged to emit comments as keep-alive
    transports/http/test_answers.py::test_silence_on_a_stream_is_filled_with_comments
resumable streams are not supported
    transports/http/test_answers.py::test_events_have_neither_ids_nor_a_time_to_come_back
closing the stream MUST be cancellation
    transports/http/test_cancellation.py::test_closing_the_stream_cancels_the_request
MUST NOT send any further messages for it
    transports/http/test_cancellation.py::test_nothing_more_is_said_for_a_request_that_is_cancelled
version header and body differ: MUST be 400, HeaderMismatch
    transports/http/test_eras.py::test_header_and_meta_decide_the_era
version not implemented: MUST be 400, Unsupported...
    transports/http/test_eras.py::test_header_and_meta_decide_the_era
method not implemented: MUST be 404 and -32601
    transports/http/test_stateless_errors.py::test_a_method_that_is_not_served_is_not_found
MUST decode an encoded value before comparing
    transports/http/test_header_mismatch.py::test_headers_say_what_the_body_says
MUST reject invalid characters
    transports/http/test_header_mismatch.py::test_headers_say_what_the_body_says
MUST NOT expect the header of null or nothing
    transports/http/test_header_mismatch.py::test_a_header_is_not_expected_for_what_is_not_given
MUST reject a header that differs or is missing
    transports/http/test_header_mismatch.py::test_headers_say_what_the_body_says
header names without case, values with it
    transports/http/test_header_mismatch.py::test_headers_say_what_the_body_says
integers SHOULD be compared as numbers
    protocol/test_headers.py::test_integers_pass_exactly_when_they_are_equal_and_safe
GET and DELETE: SHOULD be 405
    transports/http/test_stateless.py::test_only_posts_are_of_this_revision
a session id, Last-Event-ID: SHOULD be ignored
    transports/http/test_stateless.py::test_a_session_id_and_a_last_event_id_are_ignored
host both endpoints of the old transport
    transports/http/sessions/test_legacy_sse.py::test_it_stands_beside_the_endpoint_of_the_other_revisions
# 2026-07-28, versioning and subscriptions
MUST list the versions it does support
    transports/http/test_eras.py::test_header_and_meta_decide_the_era
per-request _meta is served statelessly
    transports/http/test_eras.py::test_both_eras_are_served_side_by_side
initialize selects legacy semantics
    transports/http/test_eras.py::test_initialize_opens_a_session_though_it_wants_this_revision
MUST send the acknowledgement first
    transports/http/test_listen.py::test_the_acknowledgement_comes_first_and_names_what_is_honoured
MUST NOT send what was not asked for
    wire/test_listen.py::test_only_what_was_asked_for_is_told
SHOULD end with a result at shutdown
    transports/http/test_listen.py::test_the_streams_end_with_their_results_when_the_server_ends
# 2025-11-25, 2025-06-18, 2025-03-26: Streamable HTTP
notifications: MUST be 202
    transports/http/sessions/test_session_messages.py::test_notifications_are_accepted_without_a_body
responses: MUST be 202
    transports/http/sessions/test_answers_elsewhere.py::test_an_answer_reaches_who_has_asked
cannot be accepted: MUST be an error status
    transports/http/sessions/test_session_messages.py::test_what_is_no_message_or_answers_nothing_is_a_bad_request
SHOULD prime with an id and no data
    transports/http/sessions/test_resumption.py::test_a_stream_begins_with_an_id_and_a_time_to_come_back
SHOULD send retry before it closes
    transports/http/sessions/test_resumption.py::test_a_tool_may_end_the_connection_of_its_stream
SHOULD eventually include the response
    transports/http/sessions/test_resumption.py::test_a_slow_call_begins_with_them_at_once
SHOULD terminate after the response
    transports/http/sessions/test_resumption.py::test_what_was_missed_comes_again_and_nothing_else
disconnection SHOULD NOT cancel
    transports/http/sessions/test_session_messages.py::test_a_dropped_post_does_not_cancel
to cancel, a notification
    transports/http/sessions/test_session_messages.py::test_a_cancellation_comes_by_another_post
a GET MUST be an event stream or 405
    transports/http/sessions/test_sessions.py::test_without_sessions_there_is_neither_get_nor_delete
MUST NOT send a response there, except resuming
    transports/http/sessions/test_session_streams.py::test_what_changes_does_not_come_on_the_stream_of_a_call
MUST send each message on one stream only
    transports/http/sessions/test_session_streams.py::test_each_message_comes_on_one_stream_only
also where the streams are in several processes
    transports/http/sessions/test_shared_streams.py::test_the_newest_stream_is_told_and_no_other
an event id MUST be unique in its session
    transports/http/sessions/test_resumption.py::test_no_id_is_given_twice_in_a_session
MUST NOT replay what is of another stream
    transports/http/sessions/test_resumption.py::test_what_was_missed_comes_again_and_nothing_else
applies to streams of GETs too
    transports/http/sessions/test_resumption.py::test_a_stream_of_a_get_is_taken_up_too
id SHOULD be unique, MUST be visible ASCII
    transports/http/sessions/test_sessions.py::test_an_id_is_visible_ascii_and_no_other_has_it
without an id SHOULD be 400
    transports/http/sessions/test_sessions.py::test_without_an_id_it_is_a_bad_request
terminated: MUST be 404
    transports/http/sessions/test_sessions.py::test_a_deleted_session_is_not_found
no version header: what was negotiated
    transports/http/sessions/test_session_messages.py::test_a_session_is_served_by_what_it_negotiated
no other way to tell: SHOULD be 2025-03-26
    transports/http/sessions/test_sessions.py::test_a_server_may_have_no_sessions
unsupported version: MUST be 400
    transports/http/sessions/test_session_messages.py::test_an_unsupported_version_is_a_bad_request
2025-03-26: batches of requests
    transports/http/sessions/test_session_messages.py::test_a_batch_is_answered_with_a_batch
2025-03-26: batches without requests are 202
    transports/http/sessions/test_session_messages.py::test_a_batch_without_requests_is_accepted
2025-03-26: close after all responses
    transports/http/sessions/test_session_messages.py::test_a_batch_on_a_stream_ends_when_all_is_answered
# 2024-11-05: HTTP with SSE
MUST provide two endpoints
    transports/http/sessions/test_legacy_sse.py::test_each_endpoint_has_its_method
MUST send an endpoint event
    transports/http/sessions/test_legacy_sse.py::test_the_first_event_says_where_to_post
messages are message events with JSON
    transports/http/sessions/test_legacy_sse.py::test_answers_come_on_the_stream_as_messages
MUST validate Origin
    transports/http/sessions/test_legacy_sse.py::test_messages_are_as_everywhere
"""

LINES = [line.strip() for line in CLAUSES.strip().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("sentence", "test"), [*zip(LINES[::2], LINES[1::2], strict=True)])
def test_a_sentence_has_its_test(sentence: str, test: str) -> None:
    file, _, name = test.partition("::")
    source = (TESTS / file).read_text("utf-8")
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{sentence}: where is its test?"
