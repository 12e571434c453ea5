//! A server at a URL, and which of the two HTTP transports it speaks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::Uri;
use tokio::sync::OnceCell;

use super::Failure;
use super::http::{Exchange, Http, Sse, Stream};
use super::link::{Answers, Unasked};
use super::tally::Tally;
use crate::config::{self, HttpTransport};
use crate::mcp::{Letter, Revision};
use crate::names::ServerName;
use crate::wire::Message;

/// A server at a URL.
#[derive(Debug)]
pub(super) struct Web {
    http: Arc<Http>,
    name: ServerName,
    url: Uri,
    transport: HttpTransport,
    /// Known with the first request.
    spoken: OnceCell<Spoken>,
    older: Arc<Older>,
}

/// What is spoken with the server.
#[derive(Debug)]
enum Spoken {
    Streamable,
    Sse(Sse),
}

impl Web {
    pub(super) fn new(config: &config::Http, http: Http, name: ServerName, older: Arc<Older>) -> Self {
        let spoken = match config.transport {
            HttpTransport::Streamable => OnceCell::new_with(Some(Spoken::Streamable)),
            HttpTransport::Infer | HttpTransport::Sse => OnceCell::new(),
        };
        let (url, transport) = (config.url.clone(), config.transport);
        Self { http: Arc::new(http), name, url, transport, spoken, older }
    }

    pub(super) async fn request(&self, id: u64, letter: Letter) -> Result<Answers, Failure> {
        match self.spoken.get() {
            Some(spoken) => self.ask(spoken, id, letter),
            None if self.transport == HttpTransport::Sse => {
                self.ask(Box::pin(self.sse()).await.map_err(surely_sse)?, id, letter)
            }
            None => Box::pin(self.find_out(id, letter)).await,
        }
    }

    /// Asks over streamable HTTP alone; `None` where the server is known not to speak it.
    pub(super) fn discover(
        &self,
        revision: Revision,
        id: u64,
        letter: Letter,
    ) -> Result<Option<Exchange>, Failure> {
        if self.transport == HttpTransport::Sse || self.opened().is_some() || self.older.has(&self.url) {
            return Ok(None);
        }
        Ok(Some(self.http.request(id, letter)?.proposing(revision)))
    }

    fn ask(&self, spoken: &Spoken, id: u64, letter: Letter) -> Result<Answers, Failure> {
        Ok(match spoken {
            Spoken::Streamable => Answers::Http(Box::new(self.http.request(id, letter)?)),
            Spoken::Sse(sse) => Answers::Sse(sse.request(id, letter.text)?),
        })
    }

    /// Asks over streamable HTTP, and over HTTP+SSE where that is refused in the way of a server which only knows the
    /// latter (specification, `basic/transports`, "backwards compatibility"). The other way round with a server that was
    /// of the older kind before: it may have been brought up to date.
    async fn find_out(&self, id: u64, letter: Letter) -> Result<Answers, Failure> {
        if self.older.has(&self.url) {
            match self.sse().await {
                Ok(spoken) => return self.ask(spoken, id, letter),
                Err(Failure::Unsupported(_)) => self.older.forget(&self.url),
                Err(failure) => return Err(failure),
            }
        }
        // It opens a session, or nothing: no harm if it comes twice.
        let mut exchange = self.http.request(id, letter.clone())?.repeatable();
        let refusal = match exchange.next().await {
            Ok(first) => {
                self.spoken.set(Spoken::Streamable).ok(); // or another request has found out before
                return Ok(Answers::Begun(Box::new(Begun { first: Some(first), rest: exchange })));
            }
            Err(refusal @ Failure::Status { code: 400 | 404 | 405, .. }) => refusal,
            Err(failure) => return Err(failure),
        };
        match self.sse().await {
            Ok(spoken) => {
                self.older.add(&self.url);
                self.ask(spoken, id, letter)
            }
            Err(Failure::Unsupported(_) | Failure::Status { .. }) => Err(refusal), // neither, so the first one tells more
            Err(failure) => Err(failure),
        }
    }

    async fn sse(&self) -> Result<&Spoken, Failure> {
        self.spoken.get_or_try_init(async || Sse::open(&self.http, &self.name).await.map(Spoken::Sse)).await
    }

    pub(super) async fn send(&self, text: Bytes) -> Result<(), Failure> {
        match self.opened() {
            Some(sse) => sse.send(text).await,
            None => self.http.send(text).await,
        }
    }

    pub(super) async fn listen(&self) -> Result<Unasked, Failure> {
        Ok(match self.opened() {
            Some(sse) => Unasked::Sse(sse.listen()?),
            None => Unasked::Http(Box::new(Stream::open(&self.http).await?)),
        })
    }

    pub(super) fn agree(&self, revision: Revision) {
        if revision.is_modern() {
            self.spoken.set(Spoken::Streamable).ok(); // the era has no other
        }
        self.http.agree(revision);
    }

    pub(super) fn has_session(&self) -> bool {
        self.http.has_session()
    }

    pub(super) fn tally(&self) -> &Tally {
        self.opened().map_or(&self.http.tally, Sse::tally)
    }

    pub(super) async fn close(&self) {
        match self.opened() {
            Some(sse) => sse.close().await,
            None => self.http.close().await,
        }
    }

    pub(super) fn has_one_stream(&self) -> bool {
        self.opened().is_some()
    }

    fn opened(&self) -> Option<&Sse> {
        match self.spoken.get()? {
            Spoken::Sse(sse) => Some(sse),
            Spoken::Streamable => None,
        }
    }
}

/// Says where the reason may lie that a server which has to speak HTTP+SSE does not.
fn surely_sse(failure: Failure) -> Failure {
    let Failure::Unsupported(why) = &failure else { return failure };
    Failure::Unsupported(format!("{why}; without `type: sse`, streamable HTTP is tried as well"))
}

/// A call whose first message was read to see what the server speaks.
pub(super) struct Begun {
    first: Option<Message>,
    rest: Exchange,
}

impl Begun {
    pub(super) async fn next(&mut self) -> Result<Message, Failure> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => self.rest.next().await,
        }
    }

    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        self.rest.piece().await
    }
}

/// The servers that were found to speak only the older transport, so that connecting again does not cost a request that
/// is refused.
#[derive(Default)]
pub(super) struct Older(Mutex<HashSet<Uri>>);

/// How many of them are kept. With more than that, some cost that request again.
const MOST: usize = 1024;

impl Older {
    fn has(&self, url: &Uri) -> bool {
        self.urls().contains(url)
    }

    fn add(&self, url: &Uri) {
        let mut urls = self.urls();
        if urls.len() >= MOST {
            urls.clear();
        }
        urls.insert(url.clone());
    }

    fn forget(&self, url: &Uri) {
        self.urls().remove(url);
    }

    fn urls(&self) -> MutexGuard<'_, HashSet<Uri>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Older {
    /// A URL may hold a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Older({})", self.urls().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Server;
    use crate::transport::testing::{
        EVENTS, Peer, SIZES, all, call, chunk, json, response, result, server, speaking,
    };
    use crate::transport::{Dialer, Link};
    use tokio::sync::broadcast;
    use tokio::task::JoinSet;

    /// What a server speaks.
    #[derive(Clone, Copy, PartialEq)]
    enum Speaks {
        /// Streamable HTTP.
        New,
        /// HTTP+SSE, and this status to all else.
        Old(u16),
        /// HTTP+SSE, with an endpoint on another server.
        Wrong,
        /// Only this status and text.
        Nothing(u16, &'static str),
        /// Streamable HTTP, with a stream for anybody.
        Streams,
    }

    /// A server that can be made to speak something else.
    struct Changing {
        speaks: Arc<Mutex<Speaks>>,
        asked: Arc<Mutex<Vec<String>>>,
        config: Server,
        _serving: JoinSet<()>,
    }

    impl Changing {
        async fn new(speaks: Speaks, transport: HttpTransport) -> Self {
            let peer = Peer::new().await;
            let config = server(speaking(&peer.uri, transport));
            let (speaks, asked) = (Arc::new(Mutex::new(speaks)), Arc::new(Mutex::new(vec![])));
            let (stream, mut serving) = (broadcast::Sender::new(16), JoinSet::new());
            let common = (Arc::clone(&speaks), Arc::clone(&asked));
            serving.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    connections.spawn(serve(peer.accept().await, common.clone(), stream.clone()));
                }
            });
            Self { speaks, asked, config, _serving: serving }
        }

        fn speak(&self, speaks: Speaks) {
            *self.speaks.lock().unwrap() = speaks;
        }

        /// What a new link's first call comes to, and what the server was asked for that.
        async fn tried(&self, dialer: &Dialer) -> (Result<Link, Failure>, Vec<String>) {
            let link = dialer.dial(&self.config).await.unwrap();
            let told = async { all(link.request(1, call(1)).await?).await.1 }.await;
            let asked = std::mem::take(&mut *self.asked.lock().unwrap());
            (told.map(|answer| assert_eq!(answer.number(), Some(1))).map(|()| link), asked)
        }
    }

    type Common = (Arc<Mutex<Speaks>>, Arc<Mutex<Vec<String>>>);

    async fn serve(
        mut connection: crate::transport::testing::Connection,
        (speaks, all): Common,
        stream: broadcast::Sender<String>,
    ) {
        while let Some(asked) = connection.maybe_asked().await {
            let line = asked.line.strip_suffix(" HTTP/1.1").unwrap();
            all.lock().unwrap().push(line.to_owned());
            let speaks = *speaks.lock().unwrap();
            let body = Message::parse(asked.body.clone().into(), 9);
            let answer = result(body.map_or(0, |message| message.number().unwrap()));
            let bare = |code: u16, text: &str| response(&format!("{code} Told"), "", text);
            let endpoint =
                |at: &str| format!("{EVENTS}{}", chunk(&format!("event: endpoint\ndata: {at}\n\n")));
            match (line, speaks) {
                ("GET /mcp", Speaks::Old(_)) => {
                    let mut answers = stream.subscribe();
                    connection.write(endpoint("/m")).await;
                    while let Ok(text) = answers.recv().await {
                        connection.write(chunk(&format!("data: {text}\n\n"))).await;
                    }
                }
                ("POST /m", Speaks::Old(_)) => {
                    connection.write(bare(202, "")).await;
                    stream.send(answer).unwrap();
                }
                ("GET /mcp", Speaks::Wrong) => connection.write(endpoint("http://elsewhere/m")).await,
                ("GET /mcp", Speaks::Streams) => {
                    let first = chunk("data: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n");
                    connection.write(format!("{EVENTS}{first}")).await;
                }
                ("POST /mcp", Speaks::New | Speaks::Streams) => connection.write(json(&answer)).await,
                (_, Speaks::Old(code)) => connection.write(bare(code, "Cannot POST")).await,
                (_, Speaks::Nothing(code, text)) => connection.write(bare(code, text)).await,
                (_, Speaks::New | Speaks::Streams | Speaks::Wrong) => connection.write(bare(405, "")).await,
            }
        }
    }

    const GET: &str = "GET /mcp";
    const POST: &str = "POST /mcp";

    #[tokio::test]
    async fn an_older_server_is_found_out_once_and_one_brought_up_to_date_at_once() {
        for code in [400, 404, 405] {
            let (dialer, server) =
                (Dialer::new(SIZES), Changing::new(Speaks::Old(code), HttpTransport::Infer).await);
            let (link, asked) = server.tried(&dialer).await;
            assert_eq!(asked, [POST, GET, "POST /m"], "the refused one comes first");
            link.unwrap().close().await;
            let (link, asked) = server.tried(&dialer).await;
            assert_eq!(asked, [GET, "POST /m"]);
            assert!(link.unwrap().has_session());
            for newer in [Speaks::New, Speaks::Streams] {
                server.speak(newer);
                let (link, asked) = server.tried(&dialer).await;
                assert_eq!(asked, [GET, POST], "in one attempt");
                assert!(!link.unwrap().has_session());
                let (link, asked) = server.tried(&dialer).await;
                assert_eq!((link.is_ok(), asked), (true, vec![POST.to_owned()]));
                server.speak(Speaks::Old(code));
                assert_eq!(server.tried(&dialer).await.1, [POST, GET, "POST /m"]);
            }
            assert_eq!(format!("{dialer:?}").matches("Older(1)").count(), 1);
        }
    }

    #[tokio::test]
    async fn an_outage_does_not_make_it_forgotten() {
        let (dialer, server) =
            (Dialer::new(SIZES), Changing::new(Speaks::Old(404), HttpTransport::Infer).await);
        server.tried(&dialer).await.0.unwrap();
        for code in [502, 503, 401] {
            server.speak(Speaks::Nothing(code, ""));
            let (told, asked) = server.tried(&dialer).await;
            assert_eq!((told.is_err(), asked), (true, vec![GET.to_owned()]), "{code}");
        }
        server.speak(Speaks::Old(404));
        assert_eq!(server.tried(&dialer).await.1, [GET, "POST /m"]);
    }

    #[tokio::test]
    async fn only_what_an_older_server_would_say_is_taken_for_one() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        for (code, text, asked, why) in [
            (404, "nope", &[POST, GET][..], "answered with HTTP 404: nope"),
            (400, "bad", &[POST, GET], "answered with HTTP 400: bad"),
            (400, answer, &[POST], ""),
            (404, answer, &[POST], ""),
            (406, "no", &[POST], "answered with HTTP 406: no"),
            (500, "oops", &[POST], "answered with HTTP 500: oops"),
            (401, "", &[POST], "asks for authorization (HTTP 401)"),
        ] {
            let dialer = Dialer::new(SIZES);
            let server = Changing::new(Speaks::Nothing(code, text), HttpTransport::Infer).await;
            let told = server.tried(&dialer).await;
            assert_eq!(told.1, asked, "{code} {text}");
            assert_eq!(told.0.map_or_else(|failure| failure.to_string(), |_| String::new()), why);
        }
        // It does speak it, and wrongly: that tells more than the refusal.
        let server = Changing::new(Speaks::Wrong, HttpTransport::Infer).await;
        let told = server.tried(&Dialer::new(SIZES)).await.0.unwrap_err();
        assert!(matches!(told, Failure::Garbage(_)), "{told}");
    }

    #[tokio::test]
    async fn a_given_transport_is_the_only_one_tried() {
        let dialer = Dialer::new(SIZES);
        let server = Changing::new(Speaks::Old(404), HttpTransport::Streamable).await;
        let (told, asked) = server.tried(&dialer).await;
        assert!(matches!(told.unwrap_err(), Failure::Status { code: 404, .. }));
        assert_eq!(asked, [POST]);
        let server = Changing::new(Speaks::New, HttpTransport::Sse).await;
        let (told, asked) = server.tried(&dialer).await;
        assert!(matches!(told.unwrap_err(), Failure::Unsupported(_)));
        assert_eq!(asked, [GET]);
    }

    #[test]
    fn few_are_remembered() {
        let older = Older::default();
        let url = |n: usize| Uri::try_from(format!("http://a/{n}?secret")).unwrap();
        for n in 0..=MOST {
            older.add(&url(n));
        }
        assert_eq!((older.has(&url(MOST)), older.has(&url(0))), (true, false));
        assert_eq!(format!("{older:?}"), "Older(1)");
    }
}
