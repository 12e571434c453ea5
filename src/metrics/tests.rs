use std::collections::HashSet;
use std::time::Duration;

use super::*;

/// The value of a series; `None` where there is none.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn count(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// Reads the text format strictly enough for what we write: each family announced once before its samples, each series
/// there once, each value a number.
fn check(text: &str) {
    let (mut families, mut series) = (HashSet::new(), HashSet::new());
    let mut family = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap();
            assert!(families.insert(family), "announced twice: {line}");
            assert!(family.starts_with("trunkline_") || family.starts_with("process_"), "{line}");
            assert_eq!(rest.ends_with(" counter"), family.ends_with("_total"), "{line}");
        } else if !line.starts_with("# HELP ") {
            let (id, number) = line.rsplit_once(' ').unwrap();
            assert!(series.insert(id), "there twice: {line}");
            number.parse::<f64>().unwrap();
            let name = id.split('{').next().unwrap();
            let of_histogram =
                ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(family));
            assert!(name == family || of_histogram, "{line} under {family}");
            assert_eq!(id.contains('{'), id.ends_with('}'), "{line}");
        }
    }
    assert!(!families.is_empty());
}

fn busy(metrics: &Metrics, server: &str) {
    let series = metrics.server(server);
    series.up(true);
    series.state(State::Ready);
    series.reconnect("ended");
    series.throttled();
    series.stub();
    series.tools(7);
    series.listing_truncated();
    series.tool_dropped();
    series.dropped_notices(3);
    for method in [Method::Initialize, Method::ToolsList, Method::ToolsCall] {
        series.begin(method).end(Outcome::Ok);
    }
    series.begin(Method::ToolsCall).end(Outcome::ToolError);
    series.hold(1).unwrap().end(Held::Ended);
}

#[test]
fn the_text_is_well_formed_with_everything_in_it() {
    let metrics = Metrics::new("1.2.3-\"x\"\n");
    metrics.reloaded(true);
    metrics.reloaded(false);
    metrics.sessions(5);
    metrics.panicked();
    for reason in Rejection::ALL {
        metrics.rejected(reason);
    }
    for result in Resumption::ALL {
        metrics.resumed(result);
    }
    busy(&metrics, "github");
    busy(&metrics, "my_server_0a1b2c3d");
    let text = metrics.render();
    check(&text);
    for (series, expected) in [
        (r#"trunkline_requests_total{method="tools/call",outcome="tool_error",server="github"}"#, 1.0),
        (r#"trunkline_request_duration_seconds_count{method="tools/call",server="github"}"#, 2.0),
        (r#"trunkline_upstream_state{server="github",state="ready"}"#, 1.0),
        (r#"trunkline_upstream_state{server="github",state="down"}"#, 0.0),
        (r#"trunkline_upstream_notices_dropped_total{server="github"}"#, 3.0),
        (r#"trunkline_config_reloads_total{result="failure"}"#, 1.0),
        ("trunkline_config_last_reload_successful", 0.0),
        ("trunkline_sessions", 5.0),
        (r#"trunkline_rejected_total{reason="origin"}"#, 1.0),
        (r#"trunkline_build_info{version="1.2.3-\"x\"\n"}"#, 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    assert!(value(&text, "trunkline_config_last_reload_success_timestamp_seconds").unwrap() > 1.7e9);
}

#[test]
fn a_forgotten_server_leaves_no_series_and_may_come_back_from_zero() {
    let metrics = Metrics::new("1");
    busy(&metrics, "a");
    busy(&metrics, "b");
    let late = metrics.server("a").begin(Method::PromptsGet);
    metrics.forget("a");
    metrics.forget("never there");
    late.end(Outcome::Ok); // a call that drains must not bring the series back
    let text = metrics.render();
    assert!(!text.contains(r#"server="a""#) && text.contains(r#"server="b""#), "{text}");
    metrics.server("a").stub();
    assert_eq!(value(&metrics.render(), r#"trunkline_stub_calls_total{server="a"}"#), Some(1.0));
    check(&metrics.render());
}

#[test]
fn any_names_go_together() {
    let metrics = Metrics::new("1");
    for n in 0..1000 {
        metrics.server(&format!("s{n}")).up(true);
    }
    assert_eq!(metrics.render().matches("trunkline_upstream_up{").count(), 1000);
}

#[test]
fn random_methods_add_no_series() {
    let metrics = Metrics::new("1");
    busy(&metrics, "a");
    let series = metrics.server("a");
    series.begin(Method::of("other")).end(Outcome::RpcError);
    let before = count(&metrics.render());
    for n in 0..100_000_u32 {
        series.begin(Method::of(&format!("x/{:x}", n.wrapping_mul(2_654_435_761)))).end(Outcome::RpcError);
    }
    let text = metrics.render();
    assert_eq!(count(&text), before);
    assert_eq!(
        value(&text, r#"trunkline_requests_total{method="other",outcome="rpc_error",server="a"}"#),
        Some(100_001.0)
    );
}

#[test]
fn a_hundred_servers_stay_under_a_mebibyte() {
    let metrics = Metrics::new("1");
    (0..100).for_each(|n| busy(&metrics, &format!("server-{n:03}")));
    let text = metrics.render();
    check(&text);
    println!("{} bytes, {} series", text.len(), count(&text));
    assert!(text.len() < 1 << 20, "{}", text.len());
}

#[tokio::test(start_paused = true)]
async fn every_path_counts_out_and_takes_its_time() {
    let metrics = Metrics::new("1");
    let series = metrics.server("a");
    let in_flight = r#"trunkline_requests_in_flight{server="a"}"#;
    let running: Vec<_> = (0..Outcome::ALL.len()).map(|_| series.begin(Method::ToolsCall)).collect();
    assert_eq!(value(&metrics.render(), in_flight), Some(7.0));
    tokio::time::advance(Duration::from_secs(3)).await;
    running.into_iter().zip(Outcome::ALL).for_each(|(running, outcome)| running.end(outcome));
    drop(series.begin(Method::ToolsCall));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _running = series.begin(Method::ToolsCall);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    let text = metrics.render();
    assert_eq!(value(&text, in_flight), Some(0.0));
    for outcome in Outcome::ALL {
        let id = format!(
            r#"trunkline_requests_total{{method="tools/call",outcome="{}",server="a"}}"#,
            outcome.label()
        );
        let expected = if outcome == Outcome::Cancelled { 3.0 } else { 1.0 };
        assert_eq!(value(&text, &id), Some(expected), "{id}");
    }
    let seconds = r#"trunkline_request_duration_seconds_sum{method="tools/call",server="a"}"#;
    assert_eq!(value(&text, seconds), Some(18.0), "six that took 3 s; the stub does not count");

    let streams = [metrics.stream(), metrics.stream()];
    assert_eq!(value(&metrics.render(), "trunkline_streams"), Some(2.0));
    drop(streams);
    assert_eq!(value(&metrics.render(), "trunkline_streams"), Some(0.0));
}

#[test]
fn labels_are_known_by_their_numbers() {
    for (place, method) in Method::ALL.into_iter().enumerate() {
        assert_eq!(method as usize, place);
        assert_eq!(Method::of(method.label()), method);
    }
    assert_eq!(Method::of("tools/Call"), Method::Other);
}
