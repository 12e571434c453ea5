//! Answers that are errors, of the wrong form or size, or somebody else's.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::{Beside, is_stub, said};
use crate::support::{Act, ENDLESS, Fake, Reply, Script, Step, answer, process, text, tool, until};

#[tokio::test]
async fn fault_073_only_what_may_come_twice_is_sent_again() {
    let hinted = |name: &str, hint: &str| {
        format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"annotations":{{"{hint}":true}}}}"#)
    };
    for code in [500, 502] {
        let failed: Mutex<HashSet<String>> = Mutex::default();
        let up = Fake::http(Script {
            tools: vec![tool("plain"), hinted("reads", "readOnlyHint"), hinted("same", "idempotentHint")],
            capabilities: Some(r#"{"tools":{},"resources":{}}"#.into()),
            resources: vec![r#"{"uri":"a://b","name":"b"}"#.into()],
            overrule: Some(Arc::new(move |seen| {
                let key = match seen.method.as_str() {
                    "tools/call" => seen.params()["name"].to_string(),
                    "resources/read" => "read".into(),
                    _ => return None,
                };
                let first = failed.lock().unwrap().insert(key);
                Some(if first {
                    Reply::Status(code, vec![])
                } else if seen.method == "resources/read" {
                    Reply::Result(r#"{"contents":[]}"#.into())
                } else {
                    Reply::Result(text("here"))
                })
            })),
            ..Script::default()
        });
        let beside = Beside::start("", &[("up", up.entry_with(r#", "retry": "readOnly""#))]).await;
        let client = &beside.client;
        for (name, works) in [("plain", false), ("reads", true), ("same", false)] {
            let answer = client.call(&format!("{name}_mcp_up"), "{}").await;
            assert_eq!(said(&answer) == "here", works, "{name}: {answer}");
            assert!(works || said(&answer).contains(&format!("HTTP {code}")), "{answer}");
        }
        let read = client.json("resources/read", r#"{"uri":"a://b"}"#).await;
        assert!(read["result"]["contents"].is_array(), "{read}");
        assert_eq!((up.seen_of("tools/call").len(), up.seen_of("resources/read").len()), (4, 2));
        beside.others_are_well().await;
    }
}

#[tokio::test]
async fn fault_077_events_are_read_however_they_come() {
    let up = Fake::faulty(Script::answering(|seen| {
        let whole = seen.answer(r#"{"content":[{"type":"text","text":"h\u00e9 é 😀"}]}"#);
        let events = format!("\u{feff}: hello\r\n\r\nid: 1\r\nevent: message\ndata: {whole}\r\r\n\n");
        let acts = match seen.params()["arguments"]["how"].as_str().unwrap() {
            "bytes" => vec![Act::events(), Act::Drip(events.into(), 1, Duration::from_micros(100))],
            "comments" => vec![Act::events(), Act::Flood(": ping\n\n".into(), 10_000), Act::bytes(events)],
            "silence" => {
                vec![Act::events(), Act::Drip(": ping\n\n".repeat(1000).into(), 8, Duration::from_millis(50))]
            }
            "line" => {
                vec![Act::events(), Act::bytes("data: "), Act::Flood("x".repeat(1 << 16).into(), ENDLESS)]
            }
            how => panic!("{how}"),
        };
        Reply::Raw(acts.into_iter().chain([Act::Close]).collect())
    }));
    let beside = Beside::start("", &[("up", up.entry_with(r#", "timeout": "1s""#))]).await;
    let call = async |how: &str| beside.client.call("who_mcp_up", &format!(r#"{{"how":"{how}"}}"#)).await;
    for how in ["bytes", "comments"] {
        assert_eq!(said(&call(how).await), "hé é 😀", "{how}");
    }
    let silent = call("silence").await;
    assert!(said(&silent).contains("silent for 1s"), "{silent}");
    let before = process::rss(beside.world.pid());
    let (line, ()) = tokio::join!(call("line"), beside.others_are_well());
    assert!(said(&line).contains("more than 16777216 bytes"), "{line}");
    // The allocator gives pages back within a second.
    until("what was held of it is given back", async || {
        (process::rss(beside.world.pid()).saturating_sub(before) < 16 << 10).then_some(())
    })
    .await;
}

#[tokio::test]
async fn fault_078_what_is_too_large_is_cut_at_the_limit() {
    const LIMIT: usize = 16 << 20;
    let up = Fake::faulty(Script::answering(|seen| {
        let json = |more: &str| {
            Act::bytes(format!("HTTP/1.1 200 .\r\ncontent-type: application/json\r\n{more}\r\n"))
        };
        let piece = "x".repeat(1 << 16);
        let acts = match seen.params()["arguments"]["how"].as_str().unwrap() {
            "announced" => vec![json(&format!("content-length: {}\r\n", LIMIT + 1)), Act::Silence],
            "chunks" => {
                let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                vec![json("transfer-encoding: chunked\r\n"), Act::Flood(chunk.into(), ENDLESS)]
            }
            "closing" => vec![json(""), Act::Flood(piece.into(), ENDLESS)],
            // A bomb is not even unpacked: we do not ask for anything compressed.
            coding => {
                assert_eq!(seen.header("accept-encoding"), "identity");
                let head = format!("content-encoding: {coding}\r\ncontent-length: 1048576\r\n");
                vec![json(&head), Act::Flood("\0".repeat(1 << 10).into(), 1 << 10)]
            }
        };
        Reply::Raw(acts.into_iter().chain([Act::Close]).collect())
    }));
    let beside = Beside::start("", &[("up", up.entry_with(r#", "breaker": false"#))]).await;
    let before = process::rss(beside.world.pid());
    for (how, why) in [
        ("announced", "more than 16777216 bytes"),
        ("chunks", "more than 16777216 bytes"),
        ("closing", "more than 16777216 bytes"),
        ("gzip", "compressed"),
        ("br", "compressed"),
    ] {
        let arguments = format!(r#"{{"how":"{how}"}}"#);
        let (answer, ()) =
            tokio::join!(beside.client.call("who_mcp_up", &arguments), beside.others_are_well());
        assert!(is_stub(&answer) && said(&answer).contains(why), "{how}: {answer}");
    }
    let grown = process::peak(beside.world.pid()).saturating_sub(before);
    eprintln!("at most {grown} KiB more");
    assert!(grown < 40 << 10, "{grown} KiB more");
}

#[tokio::test]
async fn fault_079_answers_to_others_are_dropped_and_counted() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script::answering(|seen| {
            let id: u64 = seen.id.as_ref().unwrap().parse().unwrap();
            let own = seen.params()["arguments"]["n"].to_string();
            let stray =
                |id: &str| Step::Send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, text("stray")));
            let strange = [&(id + 100_000).to_string(), r#""nobody""#, "0"];
            let strays = strange.into_iter().map(stray);
            // Asked for already, so somebody else's by now; and the same once more.
            let after = [answer(&own), answer(&own), stray(&(id - 1).to_string())];
            Reply::Steps(strays.chain(after).collect())
        }));
        let beside = Beside::start("", &[("up", up.entry())]).await;
        for n in 0..5 {
            let answer = beside.client.call("who_mcp_up", &format!(r#"{{"n":{n}}}"#)).await;
            assert_eq!(said(&answer), n.to_string(), "{answer}");
        }
        let series = r#"trunkline_upstream_messages_dropped_total{reason="stray",server="up"}"#;
        let dropped = beside.world.metric(series).await;
        assert!(dropped >= 15.0, "{dropped}");
    }
}

#[tokio::test]
async fn fault_079_an_answer_with_a_wrong_id_fails_its_call_at_once() {
    let wrong = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, text("stray"));
    let up = Fake::http(Script::answering(move |_| Reply::Text(wrong("77777"))));
    let beside = Beside::start("", &[("up", up.entry())]).await;
    let started = Instant::now();
    let answer = beside.client.call("who_mcp_up", "{}").await;
    assert!(is_stub(&answer) && said(&answer).contains("no answer"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn fault_080_what_is_no_message_is_told_shortly_and_by_name() {
    let up = Fake::faulty(Script {
        capabilities: Some(r#"{"tools":{},"prompts":{}}"#.into()),
        prompts: vec![r#"{"name":"p"}"#.into()],
        overrule: Some(Arc::new(|seen| {
            let how = match seen.method.as_str() {
                "tools/call" => seen.params()["arguments"]["how"].as_str().unwrap().to_owned(),
                "prompts/get" => "html".into(),
                _ => return None,
            };
            Some(Reply::Raw(vec![match how.as_str() {
                "html" => {
                    Act::whole(200, "text/html", &format!("<!doctype html><p>{}", "secret ".repeat(999)))
                }
                "text" => Act::whole(200, "application/json", &"nonsense ".repeat(999)),
                "empty" => Act::whole(200, "application/json", ""),
                "bare" => Act::bytes("HTTP/1.1 200 .\r\ncontent-length: 0\r\n\r\n"),
                "list" => Act::json("[]"),
                _ => Act::bytes("BYE\r\n\r\n"),
            }]))
        })),
        ..Script::default()
    });
    let beside = Beside::start("", &[("up", up.entry_with(r#", "breaker": false"#))]).await;
    for how in ["html", "text", "empty", "bare", "list", "http"] {
        let answer = beside.client.call("who_mcp_up", &format!(r#"{{"how":"{how}"}}"#)).await;
        let told = said(&answer);
        assert!(
            is_stub(&answer) && told.contains("server up") && !told.contains("secret"),
            "{how}: {answer}"
        );
        assert!(told.len() < 200 + 200, "{how}: {}", told.len());
    }
    let prompt = beside.client.json("prompts/get", r#"{"name":"p_mcp_up"}"#).await;
    assert_eq!(prompt["error"]["code"], -32603, "{prompt}");
    let told = prompt["error"]["message"].as_str().unwrap();
    assert!(told.contains("server up") && told.contains("an HTML page"), "{told}");
    beside.others_are_well().await;
    assert_eq!(beside.world.server("up").await["state"], "ready");
}

#[tokio::test]
async fn fault_074_an_expired_token_costs_one_attempt_whoever_calls() {
    for code in [401, 403] {
        let up = Fake::http(Script::default());
        let beside =
            Beside::start("reconnectInterval: 1s, callsPerSession: 1000", &[("up", up.entry())]).await;
        let refusal = Some(Reply::Status(code, vec![("www-authenticate", "Bearer error=\"x\"".into())]));
        up.change(|script| script.refusal = refusal);
        let before = up.seen().len();
        let started = Instant::now();
        let calls = (0..200).map(|_| beside.client.call("who_mcp_up", "{}"));
        let (answers, ()) = tokio::join!(crate::support::join(calls), beside.others_are_well());
        for answer in answers {
            assert!(is_stub(&answer) && said(&answer).contains("credentials"), "{answer}");
        }
        beside.world.is("up", "needsAuthorization").await;
        let attempts = up.seen()[before..].iter().filter(|seen| seen.method == "initialize").count();
        let most = started.elapsed().as_secs() + 2;
        assert!(attempts as u64 <= most, "{attempts} attempts, at most {most}");
        up.change(|script| script.refusal = None);
        beside.world.is("up", "ready").await;
        assert_eq!(said(&beside.client.call("who_mcp_up", "{}").await), "here");
    }
}

#[tokio::test]
async fn fault_091_a_date_of_another_year_is_five_minutes_at_most() {
    for (date, least, most) in [
        ("Fri, 31 Dec 2100 23:59:59 GMT", 299_000, 300_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ("99999999999999", 299_000, 300_000),
    ] {
        let up = Fake::http(Script::answering(|_| Reply::Status(503, vec![("retry-after", date.into())])));
        let beside = Beside::start("", &[("up", up.entry())]).await;
        for _ in 0..2 {
            let answer = beside.client.call("who_mcp_up", "{}").await;
            let after = answer["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap();
            assert!((least..=most).contains(&after), "{date}: {answer}");
        }
    }
}
