//! What reads the inputs, and what must hold of what it read.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::value::RawValue;
use trunkline::mcp::{
    self, Answer, Envelope, Filter, Mirror, ParamHeader, Retry, Revision, Round, Shown, meta, method,
};
use trunkline::session::Keyring;
use trunkline::wire::{self, Edit, Kind, Message, Passage, SseDecoder, every_member};

pub(crate) fn must(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn parse(text: impl Into<Bytes>) -> Option<Message> {
    Message::parse(text.into(), 128).ok()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Requests: envelopes are read, cut and put in.
pub(crate) fn envelope(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input).into_owned();
    if let Ok(filter) = Filter::parse(&text) {
        let again = format!(r#"{{"notifications":{}}}"#, filter.write());
        must(Filter::parse(&again) == Ok(filter), "a filter does not read back")?;
    }
    let Some(message) = parse(text.clone()) else { return Ok(()) };
    must(is_json(&text), "a message that is no JSON")?;
    let read = Envelope::read(&message);
    let cut: Vec<Edit> = mcp::envelope_cuts(&message).into_iter().map(|at| (at, String::new())).collect();
    let without = edited(&message, &cut)?;
    must(!matches!(Envelope::read(&without), Some(Ok(_))), "an envelope that was cut is read")?;
    must(metas(&without).iter().all(|key| !is_envelope(key)), "a key of the envelope is left")?;
    must(
        metas(&message).iter().filter(|key| !is_envelope(key)).eq(metas(&without).iter()),
        "too much was cut",
    )?;
    let ours = mcp::envelope_members(Revision::LATEST, "{}", mcp::IDENTITY, None);
    let with = edited(&message, &mcp::enveloped(&message, &ours))?;
    must(with.id() == message.id() && with.method() == message.method(), "more than `params` was changed")?;
    if message.params_members(["_meta"]).is_ok() {
        match Envelope::read(&with).ok_or("our envelope is not there")? {
            Ok(envelope) => {
                must(with.slice(envelope.capabilities) == Some("{}"), "the client's capabilities are left")?;
            }
            Err(why) => must(why.contains("twice"), &why)?, // its progress token: refused before
        }
    }
    let first = edited(&message, &mcp::retried(&message, None, None))?;
    // One whose keys are read in two ways is refused before.
    let sound = Retry::read(&message).is_ok();
    must(!sound || Retry::read(&first) == Ok(None), "a first request brings input")?;
    if sound && message.params().is_some() {
        let retry = edited(&message, &mcp::retried(&message, Some(&[("k\"", "1")]), Some("\"s\"")))?;
        let brought = Retry::read(&retry)?.ok_or("a retry brings nothing")?;
        must(brought.state.as_deref() == Some("s") && brought.responses.len() == 1, "a retry brings else")?;
    }
    let tagged = mcp::tagged(&message, b"\"id\"");
    let tagged = parse(tagged).ok_or("what was tagged is no message")?;
    if message.params_members(["_meta"]).is_ok() && message.params_span().or(message.body_span()).is_some() {
        must(message.body_span().is_some() || mcp::subscription(&tagged) == Some("\"id\""), "a tag is lost")?;
    }
    drop((read.map(|read| read.is_ok()), mcp::missing_envelope(&message)));
    Ok(())
}

/// Long results: what passes is what splicing the whole gives, whatever the cuts, and nothing that answers another passes.
pub(crate) fn passage(input: &[u8]) -> Result<(), String> {
    let whole = passed(input, input.len().max(1));
    for size in [1, 2, 5] {
        must(passed(input, size) == whole, "another cut passes otherwise")?;
    }
    let message = parse(input.to_vec());
    let ours = message.filter(|message| message.kind() == Kind::Result && message.number() == Some(7));
    let Some(message) = ours else {
        // Of what is inside only the brackets count, so what passes need not be JSON; but what is, answers its request.
        let passed = whole.and_then(|passed| Message::parse(passed.into(), 128).ok());
        return must(passed.is_none(), "what is no answer passes as one");
    };
    must(is_opening(input, &message), "it opens otherwise")?;
    let spliced = message.splice(&mut [(message.id_span().unwrap_or_default(), b"\"c\"")]);
    must(whole.as_deref() == Some(spliced.trim_ascii_end()), "it passes otherwise than it is spliced")
}

/// `input` in pieces of `size` bytes under the id `"c"`, where it is an answer to 7.
fn passed(input: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut passage = Passage::new(7, "\"c\"".into(), 128);
    let mut out = Vec::new();
    for piece in input.chunks(size) {
        passage.pass(&Bytes::copy_from_slice(piece), &mut out).ok()?;
    }
    out.push(passage.end().ok()?);
    Some(out.concat())
}

/// Whether every start of `input` tells what the whole is, or nothing.
fn is_opening(input: &[u8], message: &Message) -> bool {
    (0..input.len().min(64)).all(|end| {
        let opening = Message::opening(Bytes::copy_from_slice(input.get(..end).unwrap_or_default()));
        opening.is_none_or(|opening| {
            opening.kind() == message.kind() && opening.id().is_none_or(|id| Some(id) == message.id())
        })
    })
}

fn edited(message: &Message, edits: &[Edit]) -> Result<Message, String> {
    let mut edits: Vec<_> = edits.iter().map(|(at, with)| (at.clone(), with.as_bytes())).collect();
    parse(message.splice(&mut edits)).ok_or_else(|| "an edit leaves no message".into())
}

fn is_envelope(key: &str) -> bool {
    [
        meta::PROTOCOL_VERSION,
        meta::CLIENT_CAPABILITIES,
        meta::CLIENT_INFO,
        meta::LOG_LEVEL,
        meta::SUBSCRIPTION_ID,
    ]
    .contains(&key)
}

/// The keys of every `_meta` in the `params`.
fn metas(message: &Message) -> Vec<String> {
    let params = message.params().unwrap_or("{}");
    let mut keys = vec![];
    for member in
        every_member(params).unwrap_or_default().iter().filter(|member| member.name(params) == "_meta")
    {
        let raw = params.get(member.value.clone()).unwrap_or_default();
        keys.extend(every_member(raw).unwrap_or_default().iter().map(|member| member.name(raw).into_owned()));
    }
    keys
}

/// Texts as values of headers, values of headers as texts, and schemas that ask for headers.
pub(crate) fn headers(input: &[u8]) -> Result<(), String> {
    if let Ok(said) = mcp::decode_header(input) {
        let again = mcp::encode_header(&said);
        must(mcp::decode_header(again.as_bytes()).as_deref() == Ok(&*said), "a header does not read back")?;
    }
    let text = String::from_utf8_lossy(input);
    let value = mcp::encode_header(&text);
    let plain = value.as_bytes().iter().all(|byte| (0x20..=0x7e).contains(byte));
    must(plain, "a header has what may not stand there")?;
    must(mcp::decode_header(value.as_bytes()).as_deref() == Ok(&*text), "a text does not come back")?;
    // A schema, a line break, arguments.
    let (schema, arguments) = text.split_once('\n').unwrap_or((&text, "{}"));
    let Ok(wanted) = ParamHeader::all(schema) else { return Ok(()) };
    let mirror = Mirror::of(Revision::LATEST, method::TOOLS_CALL, Some(&text), &wanted, Some(arguments));
    let headers: HeaderMap = mirror.iter().cloned().collect();
    Shown::of(&headers).check(&wanted, Some(arguments))?;
    let shown = wanted.iter().any(|header| header.value(arguments).is_some());
    must(Shown::default().check(&wanted, Some(arguments)).is_err() == shown, "a missing header is not missed")
}

/// Sealed texts that somebody changed. The keys are always the same, so that findings come again.
pub(crate) fn seals(input: &[u8]) -> Result<(), String> {
    static KEYS: LazyLock<Keyring> = LazyLock::new(|| Keyring::new(&[[7; 32], [8; 32]]));
    let keys = &*KEYS;
    let text = String::from_utf8_lossy(input);
    must(keys.open("fuzz", &text).is_none(), "something opens that was not sealed")?;
    must(keys.named("fuzz", &text).is_none(), "something is a name that was not made")?;
    let sealed = keys.seal("fuzz", input);
    must(keys.open("fuzz", &sealed).as_deref() == Some(input), "what was sealed does not open")?;
    must(keys.open("else", &sealed).is_none(), "it opens for another purpose")?;
    let name = keys.name("fuzz", input);
    must(keys.named("fuzz", &name).as_deref() == Some(input), "a name does not lead back")?;
    // One change at a place that the input chooses.
    let place = input.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    let mut changed = sealed.clone().into_bytes();
    let at = place % changed.len();
    if let Some(byte) = changed.get_mut(at) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    must(keys.open("fuzz", &String::from_utf8_lossy(&changed)).is_none(), "a changed seal opens")
}

/// Results and errors, and their way into the other era.
pub(crate) fn rounds(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let text = text.trim(); // as a message's part has it
    let read = Round::read(text);
    let Ok(members) = every_member(text) else { return Ok(()) };
    if let Some(Ok(round)) = &read {
        let raw = |at: &Option<wire::Span>| at.clone().and_then(|at| text.get(at));
        let requests: Vec<_> =
            round.requests.iter().map(|asked| (&*asked.key, &*asked.method, raw(&asked.params))).collect();
        let state = raw(&round.state).and_then(wire::Text::of);
        // A state with half a character is passed on raw, and never written by us.
        if !requests.is_empty() || state.is_some() {
            let ours = mcp::input_required(&requests, state.as_deref());
            let again = Round::read(&ours).ok_or("our own round is none")??;
            must(again.requests.len() == requests.len(), "a request of a round is lost")?;
        }
    }
    let twice = {
        let mut names: Vec<_> = members.iter().map(|member| member.name(text)).collect();
        names.sort();
        names.windows(2).any(|two| matches!(two, [one, other] if one == other))
    };
    let answers = [
        Answer::Call { wrapped: false },
        Answer::Call { wrapped: true },
        Answer::Prompt,
        Answer::Read,
        Answer::Other,
    ];
    for answer in answers {
        for client in Revision::LEGACY {
            let legacy = wire::edited(text, &mut mcp::to_legacy(text, answer, client));
            must(is_json(&legacy), "a result for a legacy client is no JSON")?;
            must(!has(&legacy, "resultType"), "a legacy client gets a kind of result")?;
        }
        for from in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let modern = wire::edited(text, &mut mcp::to_modern(text, answer, from, Some("{}")));
            must(is_json(&modern), "a result for a modern client is no JSON")?;
            must(twice || has(&modern, "resultType"), "a modern client gets no kind of result")?;
        }
    }
    for (from, to) in
        [(Revision::LATEST_LEGACY, Revision::LATEST), (Revision::LATEST, Revision::LATEST_LEGACY)]
    {
        let error = mcp::error_for(text, from, to, Some("a:\""));
        must(error.is_none_or(|error| is_json(&error)), "an error for the other era is no JSON")?;
    }
    must(is_json(&mcp::input_params(text)), "params to be asked are no JSON")?;
    for client in Revision::LEGACY {
        for name in [method::ELICITATION, method::SAMPLING, method::ROOTS_LIST] {
            let leg = mcp::leg_params(client, name, Some(text), "e");
            must(leg.is_err() || leg.is_ok_and(|leg| is_json(&leg)), "a leg is no JSON")?;
        }
    }
    Ok(())
}

fn has(text: &str, key: &str) -> bool {
    every_member(text).unwrap_or_default().iter().any(|member| member.name(text) == key)
}

/// Server-sent events: the cut between two chunks changes nothing.
pub(crate) fn events(input: &[u8]) -> Result<(), String> {
    let decode = |size: usize| {
        let mut decoder = SseDecoder::new(1 << 16);
        let mut events = vec![];
        for chunk in input.chunks(size) {
            decoder.push(chunk);
            while let Ok(Some(event)) = decoder.next_event() {
                events.push(event);
            }
        }
        (events, decoder.last_id().map(str::to_owned), decoder.retry_ms())
    };
    let whole = decode(input.len().max(1));
    must([1, 2, 3, 7].into_iter().all(|size| decode(size) == whole), "another cut reads otherwise")
}
