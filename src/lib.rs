//! trunkline joins many MCP servers into one streamable-HTTP endpoint. This page is its architecture: where things are,
//! which way they go, and what must stay true. README.md tells how to use it.
//!
//! # Rooms and floors
//!
//! A room is a folder of `src` with `mod.rs` as its door. A room uses rooms on **lower** floors only; rooms on one floor
//! do not know each other. `tests/floors.rs` reads this very table and fails where the code does otherwise, or where a
//! room is not in it.
//!
//! | floor | room | what it is for |
//! |---|---|---|
//! | 7 | [`app`] | Wires everything, watches the file, reloads, handles signals, drains; the subcommands and the demo server. `main.rs` above it has arguments, the log and the exit code. |
//! | 6 | [`front`] | HTTP towards clients and operators: guards, which era a message is of, sessions' ids, JSON or events; metrics, probes, `/status`. |
//! | 5 | [`relay`] | One message in, where it goes, the answer out; legs; the bridge between the eras; who is told what; [stubs and refusals](relay::Refusal). |
//! | 4 | [`fleet`] | All upstreams: applies a change, makes the catalog, publishes one [`Snapshot`](fleet::Snapshot), sends [`Notice`](fleet::Notice)s. |
//! | 3 | [`upstream`] | One server kept connected: its keeper task, [`State`](upstream::State), pace, era and handshake, listing, listening, calls in flight. |
//! | 2 | [`catalog`] | An immutable list of everything offered: routes by name or URI, and each view's lists rendered in advance. |
//! | 2 | [`session`] | One client's stay: what was agreed, its calls in flight, its outbox; the registry and the sealing of ids. |
//! | 2 | [`transport`] | How to reach one server, over streamable HTTP, over the older HTTP+SSE or as a child process: gives a [`Link`](transport::Link). TLS. |
//! | 2 | [`auth`] | Who calls: keys → a [`Principal`](auth::Principal). To come: what they may do, and the tokens that we present to servers. |
//! | 1 | [`clock`] | Coarse deadlines: any number of waiting calls for the price of one timer. |
//! | 1 | [`config`] | The file's model: text → checked [`Config`](config::Config), every problem at once; the [`Change`](config::Change) between two; the JSON Schema. |
//! | 1 | [`mcp`] | The protocol's own facts: revisions, methods, headers, envelopes, the handshake's messages, and what a message of one era is in the other. |
//! | 1 | [`metrics`] | Every series, declared once; handles per server; guards that count out on every path. |
//! | 0 | [`memory`] | One budget for what is held of large messages. |
//! | 0 | [`names`] | `<tool>_mcp_<server>`: joining, sanitising, cutting. Never splitting. URIs: prefixes and templates. |
//! | 0 | [`wire`] | JSON-RPC messages as the bytes that came plus the places of their parts; server-sent events; error codes. |
//!
//! # The paths
//!
//! Each goes one way.
//!
//! **`tools/call`.** [`front::Server`] owns the connection; [`front::Endpoint`] checks `Host`, `Origin`, path, media
//! types and size, reads the body into a [`wire::Message`] and finds the [`session::Session`]. [`relay::Relay::handle`]
//! registers the call's id in the session and makes a [`relay::Call`], a future that starts at its first poll. Polled, it
//! takes **one** [`fleet::Fleet::snapshot`] and asks [`catalog::Catalog::tool`] for the route. No route: the name's tail
//! may tell a server to list once more; then a stub, or `-32602`. A route: [`upstream::Upstream::begin`] reads the state
//! once, and a ready one gives an [`upstream::Exchange`] on its link: the client's own bytes with three places
//! [spliced](wire::Message::splice): our id, the server's own name of the tool, our id again as progress token. The
//! [`transport::Reply`] gives asides, then the answer, as return values; id and token are spliced back.
//!
//! The call is polled inside the response body, so over HTTP there is no task and no channel per call. `front` gives it a
//! second to answer in plain JSON; the first aside, or that second, makes the response a stream of events (below). A client
//! that hangs up has not cancelled: its [`relay::Call`] goes on in a tracked task. `notifications/cancelled` reaches the
//! call through its [`session::CallGuard`], and the server under our id. A server that has lost our session gets the call
//! again, once, on the next link; nothing else is sent twice.
//!
//! **Events.** Where a response becomes a stream, [`relay::Call::keep`] moves the call into a tracked task that feeds a
//! numbered, bounded ring of the session ([`session::Feed`]); the connection only follows it ([`session::Follower`]), and
//! so does the next one, from the event that `Last-Event-ID` names on. The session's own stream, which a `GET` opens, is
//! such a ring as well, and whatever goes to a client as an event goes through one of them: so it has its id and its place.
//! The newest follower reads, an older one ends. A call waits for a follower that is there, for 30 s, and not for one that
//! is away. [`session::Sessions::sweep`] lets go of what nobody came back for.
//!
//! **Batches.** In sessions of 2025-03-26 `front` gives each message of an array to the relay by itself and
//! [joins](relay::Call::join) the calls into one, whose answers are gathered, or told as events like asides.
//!
//! **Without a session.** Clients of 2026-07-28 say with every request who asks. `front` tells a message's era by its body,
//! judges a modern one in a fixed order, and gives it to the relay as that of a [guest](session::Sessions::guest): a
//! session in no table, so that all else goes the same way. Its answer has the status of its error where it comes first,
//! up to 10 s late; its events are written as the call tells them, without ids, and are kept nowhere: whoever hangs up has
//! cancelled. `subscriptions/listen` is such a stream for notices: the relay [tells](relay::Listen) what of one its client
//! asked for, under the request's id, and the guest holds the subscriptions for as long as it is open.
//!
//! **Everything else that a server answers** (prompts, resources, completion, tasks, and in a server's own view whatever we
//! do not know) takes the same way: one place of the request is the client's own name or URI, and is replaced. Only a tool
//! gets a stub; the others get `-32603` with the same words.
//!
//! **Legs.** A server's request inside a call comes with the call's reply, or, over a stream that all calls share, into the
//! inbox of the call that must have caused it. The relay asks whether the client declared it, opens a
//! [`session::Leg`] under an id of ours and puts the request out as an aside, so the response becomes a stream. The
//! client's answer is another POST: [`session::Session::answered`] finds the leg by our id and nothing else, so only the
//! client that was asked can answer. The call, which polls its legs beside the reply, sends it on under the server's own
//! id. Meanwhile the server's silence does not count. Whichever side ends first, the other is told: a cancellation of
//! the server reaches the client under our id, and a call that ends takes its open legs back. Where the client cannot be
//! asked, the server hears so at once and the call goes on.
//!
//! **Eras.** Revisions up to 2025-11-25 are legacy: a handshake, a session, and servers that send requests. From 2026-07-28
//! on they are modern: each request says by itself who asks and what that client can do, and a server that wants to know
//! something says so in its answer, upon which the request is made again. Between the two edges is one core that does not
//! ask which it is. What it knows of a client is a [`session::Session`]; a modern request brings a
//! [guest](session::Sessions::guest) with it, which is in no table and ends with the request. What it sends to a server is a
//! [letter](mcp::Letter), written when the link is known, in the words of the revision spoken there, and the answer is
//! restored in those of the client, in the same splice as id and names.
//!
//! Four pairs, of which two are straight. *Legacy client, modern server:* an answer that asks becomes requests to the client
//! on the stream of its call, and what it says goes with the call made anew; the client sees one call (`relay`, `rounds`).
//! *Modern client, legacy server:* what the server asks in a call is gathered for a moment and becomes the client's answer;
//! the call itself is parked, with a task that keeps polling it, under a number that the client carries in a sealed state.
//! Its retry brings the answers, takes the call out, and is told what it tells from then on (`relay`, `hold`). A state is
//! good once, for the same request, for `holdTime`; then the server hears that nobody will answer. *Modern both:* the
//! server's own state is sealed into ours, so that it fits no other request.
//!
//! **Lists.** front → relay → [`catalog::Catalog::list`], rendered once, with an envelope around it:
//! no server is asked and no JSON is touched; a page is a piece of the same text. Two exceptions wait, for `firstListWait` at most: the first
//! list after a start, and a server's own view before the server was ever needed (`startup: false`).
//!
//! **Reload.** `app` watches the *folders* of the file and of all it refers to, waits for quiet, reads, compares. One task
//! does it, so reloads cannot overlap. [`config::parse`] gives a whole new configuration or all its problems; with
//! problems everything stays as it was. [`fleet::Fleet::apply`] takes [`config::Change::between`] the two: what is
//! untouched keeps its link; other names, texts and times are handed to the running upstream; successors of changed
//! servers warm up side by side until they are ready or the time is up, and nothing else is held up by that. Then one
//! store publishes the snapshot, the old upstreams drain, and a notice goes out. A successor that does not work does not
//! take the place of one that does: it is held back, tried on, and put into use once it works; `/status` says so. A start
//! is the same call from a configuration without servers.
//!
//! **Reconnect.** The link ends → the keeper says [`State::Down`](upstream::State::Down) with the reason → waits for the
//! pace (one attempt per `reconnectInterval`, whoever asks) → dials, shakes hands, under one deadline →
//! [`State::Ready`](upstream::State::Ready) → lists → tells the [`upstream::News`]. The fleet wakes, waits 100 ms for
//! more, makes the [`catalog::Part`]s anew whose listing or settings differ, stores, and sends a notice only if there was
//! one. While a server is down its last listing stays, and its tools answer with a stub.
//!
//! **A server that fails.** Each upstream has a gate ([`upstream`], `gate`), which a call passes before it looks for a
//! link. It counts the calls in flight, but not those for which a client is asked, and turns the 257th away. Behind it
//! stands the breaker, which counts rounds: calls that were let in between two failures that count are one. It looks at
//! calls only; whether the server is connected, and stays so, is the keeper's affair. The two meet in three places: an
//! open breaker makes the keeper ask whether the server is there at all (`pulse`), silence to that ends the link, and a new
//! link lets one call through at once. What a server asks for by `Retry-After` holds for the link that it was said on.
//!
//! **Both eras.** A new link is asked `server/discover` first, and `initialize` where the server does not know that, both
//! under the attempt's deadline ([`upstream`], `greet`). A modern link has no sessions and all calls share it; what its
//! server tells comes over one `subscriptions/listen` with the lists that it announces and all wanted URIs, and where
//! wishes change the next one stands before the last is left. Over HTTP a server of both eras is spoken to in each
//! client's: sessions get links of their own there, of the legacy era, until the server refuses one. Whoever answers a
//! list that it answered before as if it had never heard of the revision has been replaced: it is greeted anew.
//!
//! **A caller's own link.** Where a server hands out session ids, or the file says so (`scope`, `interactive`), a shared
//! link would mix clients up; where callers are known, a child is one principal's. There a caller's first call has a task of
//! its own dial: for a session with the client's capabilities, at the pace of the server, and never while the keeper says
//! down. Calls wait for it side by side. A session holds a lease on its link, a request of `scope: request` another; with
//! that, after `connectionIdle`, with the upstream, or where another needs its place and it is the longest idle, the task lets
//! calls finish and closes the link. A lost one is dialled again by the next call. Lists, subscriptions and health stay the
//! keeper's. All these links stand in one table, by whose they are and by a digest of what was filled in.
//!
//! **Who calls.** [`front::Endpoint`] has [`auth::Visitor::of`] say who sends a request, before anything else of it is looked
//! at, and takes those headers along that the configuration hands on. The session knows the principal as text, and is found
//! for that one only, as long as the key that opened it is in force; states, ids of tasks and cursors are bound to the same
//! text. [`upstream::Behalf`] brings both to where a link is chosen.
//!
//! **What callers fill in.** A server whose settings have blanks ([`config::Personal`]) has no keeper's link: its state is
//! [`State::PerCaller`](upstream::State::PerCaller), and [dialling](transport::Dialer::dial) it as it stands fails. A call has
//! its [values](config::Values) looked up, or is refused with what is missing; they make the key of its link, and the
//! settings it is dialled with. What such a server lists is fetched over a caller's link, kept in memory for that caller, and
//! joined with the shared catalog when it is read: [`fleet::Fleet::sees`] gives a snapshot that is like the shared one but for
//! those parts, so nothing after it knows of the difference.
//!
//! **What outlives the process.** `fleet` writes each shared listing that changed into `catalogCache`, one task after the other
//! changes; a start begins with what is there. `app` keeps a key for sessions beside it.
//!
//! **What nobody asked for.** Whoever keeps a link listens to its [`transport::Inbound`]. `list_changed` makes the keeper
//! list again, `ping` and configured roots are answered at once. What comes with a call's reply is that call's. Anything
//! else must be somebody's: each link has a table of its calls in flight, and a leg or log message goes to the newest
//! call of the link's only session, or of the only session that has one in flight there. Without any, a session's own
//! link has one client to ask and tell on its open stream; on a shared one a leg fails, and the rest goes upwards. There
//! are only subscriptions upwards: the keeper's status is a `watch`, [`fleet::Fleet::notices`] a `broadcast`. A client's
//! open stream in `front` asks [`relay::Relay::told`] what of a notice its client hears, and in which words: changed lists
//! of its view, resources that it subscribed to, log messages from its level on with the server's name, what its own tasks
//! and elicitations tell; it puts that onto the session's own stream, and one that opens later sees by the snapshot's count
//! of notices that it has missed some. Nothing below `front` knows who listens; a reader that falls behind is told that something
//! changed, and a server that floods is cut short before it drowns the others.
//!
//! **Wishes.** Clients subscribe to resources and want log levels; a server knows one of each. An upstream counts them:
//! the first [`Subscription`](upstream::Subscription) to a URI asks the server and the last one's end tells it, the
//! loudest [`LevelWish`](upstream::LevelWish) is the level. After a reconnect both are told anew, after a reload by the
//! successor.
//!
//! **The edge.** [`front`] believes no client. Each connection has a [`front::Peer`], a few counters that whoever works
//! for it turns: by them, and by one timer a connection, the slow, the silent and the flooding are found without asking,
//! locking or timing anything per request. Its socket gives up on writes that stand still and on bytes that move nothing,
//! and looks for heads that frame their body twice; a stream of HTTP/2 whose client leaves no window open is ended by the
//! executor that runs it. Bodies are read up to a size, at a least speed, and as far as [`memory`] goes, in which large
//! answers count from the server's first byte to the client's last. Calls in flight count in the [`session::Session`] and
//! in all of them: at the limit a client is told at once to come again, and nobody takes more places than he leaves. A
//! call that panics is answered with `-32603` where it is polled, a request in the connection that it came by.
//!
//! **The end.** SIGTERM fails `/readyz`, waits `drainDelay`, takes no more connections, gives calls in flight
//! `drainTimeout` (those whose clients hung up, too), then ends streams, links and children. A second at the most, or a
//! quarter of that time, is for telling: [`clock::Clock::end`] makes every deadline of a call due at once, so each is
//! answered with an error, and its server told. Every task belongs to a tracker that is waited for.
//!
//! # What must stay true
//!
//! - `wire`, `names`, `mcp`, `config` and `catalog` know no sockets, clocks or tasks. What `config` reads besides its text
//!   it reads through a [`config::World`]. (Checked: none of them names tokio.)
//! - `relay`, `session`, `upstream` and `fleet` never see a type of HTTP. (Checked: none of them names hyper.)
//! - `upstream` does not know that there are others; `session` does not know servers.
//! - What callers bring is in no shared snapshot, nor on disk, nor in a text that another one reads.
//! - Only `fleet` writes the snapshot. Only an upstream's keeper writes its state and its listing. Only `app` reads the
//!   configuration file.
//! - A request looks at one snapshot. It holds names and upstreams both, so nobody sees half a reload.
//! - No two rooms talk over a pair of channels in both directions: bounded channels in a ring deadlock. Answers are return
//!   values; the unasked goes upwards, by subscription.
//! - Every queue is bounded. Every task has an owner that ends it.
//! - Payloads are never parsed into values: [`wire::Message::splice`] is the only way to change a message, so numbers of
//!   any size, doubled keys, key order and unknown fields leave as they came.
//! - Names are looked up, never split. Of a prefixed URI the prefix is cut off, and looked up.
//! - No secret reaches logs, metrics, `/status` or an error's text: types that may hold one have a `Debug` that counts.
//! - No global state but the tracing subscriber and the rustls provider. `unsafe` is forbidden; so a child cannot be tied
//!   to our death by the kernel: its group is ended by us, and where we are killed it finds its input closed.
//! - No panic on what a peer sends.
//!
//! # Words
//!
//! | word | means |
//! |---|---|
//! | server, upstream | an MCP server behind us; our kept connection to it |
//! | client | whoever connects to us |
//! | message, request, notification, response, method, params, result | JSON-RPC's words |
//! | server name, tool name, qualified name | `github`, `search`, `search_mcp_github` (the code says *exposed* for a name as clients see it) |
//! | listing, part, menu, catalog, snapshot | what one server says it has; that under its settings; parts together as a view shows them; all menus at one moment; catalog and upstreams, what one request sees |
//! | view | a path with its own selection of servers and naming: `/mcp`, `/mcp/<server>`, `/mcp/<view>` |
//! | link, dial, handshake, ready, down | one live connection and its stages |
//! | session | a client's stay under one `Mcp-Session-Id`; never a connection |
//! | revision | `2025-11-25` and its like. Version is ours |
//! | stream, event | an SSE response, or several that go on with one another; one message on it with its id |
//! | era, envelope, letter | legacy or modern, see above; what a modern request says of its client, in `_meta`; a message to a server with what its headers repeat |
//! | guest | what one modern request brings, in the form of a session |
//! | leg, round, hold | a server's request to a client, nearly always inside a call; an answer that asks, and the call made anew; a call parked until its client's retry |
//! | own link | one of a single session, principal or request; the others are shared |
//! | principal, visitor, behalf | who calls, by what he proved; what one request shows; for whom something is asked of a server |
//! | blank, values | what of a server's settings each caller fills in; what one caller has for it |
//! | reload, change, apply | of the configuration |
//! | refusal, stub | we answer in a server's place; the refusal for a tool whose server is away |
//! | notice, aside | something for whoever listens; something that comes before a call's answer |
//! | gate, breaker, round | lets calls in to a server; stops them where it fails them; calls that fail side by side |
//! | drain, pace | to finish what runs and take no more; how often something may be tried |
//!
//! `X::new` is cheap and cannot fail; `X::parse` is from text; `X::spawn` starts a task; `X::build` costs. The task behind
//! a handle is its keeper. Units stand in the names of keys or in types.
//!
//! # Decisions
//!
//! What building settled, and why.
//!
//! - **A call is a future, not a task.** [`relay::Call`] and its reader are polled by the same task in turn, so its asides
//!   go through a small bounded queue without a waker: whoever fills it is polled again when the reader has emptied it.
//!   A child process is one stream for all calls, and so is a server of the older HTTP+SSE: there the link's reader puts
//!   messages into an inbox per call.
//! - **A connection of HTTP/1.1 is driven by the call that uses it**, with a reader of our own: hyper's client has a
//!   task for it, two channels and a map of every header, which were a sixth of a call. HTTP/2, where calls share one
//!   connection, and the connections of clients stay hyper's.
//! - **Only a stream is kept.** An answer in plain JSON costs nothing of it: no ring, no task, no event was seen that could
//!   be asked for again. A stream has both from its first event on, rather than from the first hang-up: so there is one way
//!   for events to go, and cutting it in any place is the same.
//! - **Ids of events say everything**: the stream (at random, so that a successor of ours mistakes no stream of its own for
//!   it), the number, and the id of the request. A client whose call's stream is gone so gets an error as its answer:
//!   with any HTTP status the TypeScript client tries twice and forgets it, and whoever made the call waits for the timeout.
//!   After the last event there is `204`: that client comes back after an answer that is an error, and this stops it.
//! - **A gap is told, not closed.** Beyond the bounds the oldest messages go; in their place stands a log message with their
//!   number. To end the stream would cost the answer, which is what most clients want of it.
//! - **Bounds of streams**: 4,096 messages of a call and 1 MiB beside its newest, 256 of the session's own stream (8 while
//!   nobody has listened for 5 minutes); 16 ended streams a session, kept for 5 minutes after the client left, or 1 if it
//!   has read everything; 64 MiB in all, beyond which only what a client that is there has yet to read is kept.
//! - **A runtime per core** ([`front::Workers`]) for clients, and one more for what keeps servers connected. A client's
//!   connection, its calls and the HTTP connections they use towards servers stay on one thread: a connection that
//!   another thread drives costs two wake-ups across cores a call, more than the rest of the call at low load.
//! - **A link's first request finds out which HTTP transport is spoken**, where the file does not say it. The dialer
//!   remembers, by URL, who spoke only HTTP+SSE: such a server is asked that way first, and the other way in the same
//!   attempt once it offers no such stream. So neither a reconnect nor a server brought up to date costs an attempt.
//! - **A change is judged by what runs**, not by the file before: a stamp or a place that the running connection has already
//!   replaces nothing, also where another one was tried in between and held back.
//! - **A file is read when its writer has closed it**, where the system tells that: half of one may be good by itself.
//! - **Our own pool of HTTP/1.1 connections**: one server per link needs no keys, a connection goes back
//!   when its answer has been read, without a task, and each thread has its own. It took a seventh of a call's cost away.
//! - **Calls have coarse deadlines** on one shared [`clock::Clock`]: two timers of their own cost a call more than reading
//!   its message, and at low load a system call. `timeout` may come up to 0.3 s late, never early.
//! - **jemalloc, with a thread that gives back** what nobody uses: glibc and mimalloc kept most of what a burst took.
//! - **Keys that differ in case alone are refused**, at the top of a message and where its route is read: a server that
//!   takes no notice of case would read another method, or another tool, than the one we looked up.
//! - **Messages are read by one strict scan** (`wire::scan`) that checks the text and keeps places; it takes exactly what
//!   `serde_json` takes (a property test compares them) and counts the depth on the way.
//! - **Where one stream brings all, an answer waits for its turn.** What belongs to no call by its form may be of a call
//!   all the same, and comes by way of the link's keeper. So the answer is given out when whoever listens is done with
//!   what came before it, within a second: a log line never comes after its call, or to somebody else.
//! - **A session's own link is a task, its lease a token.** The session holds the token's guard and knows no servers; the
//!   task watches it. Only a call brings a lost link back to dialling, so a server's restart costs what is used of it.
//! - **Links are numbered per upstream, shared and own, across its successors**: a number says which link a call was on,
//!   and whose keeper is to be told what it met there.
//! - **All servers' series are one collector** for the registry: it tells collectors apart by a sum of hashes, which two
//!   servers can share.
//! - **Every connection asks for the era anew**: it costs a legacy server one round trip, and finds out one that was
//!   brought up to date, which nothing else shows. Only of a child that ends at the question, or never answers it, is
//!   remembered for a day that `initialize` goes first; one that ends is started a second time within its first attempt.
//! - **An answer to a call is no proof of another era**, since a tool can word it as it likes: it only makes the keeper
//!   list at once, and the answer to that decides.
//! - **A lost session is opened again at once**, once per `reconnectInterval`, whatever the pace says: a server that answers
//!   404 is not away. Every other attempt waits its turn.
//! - **A server stays "down" while it is tried again**, so its reason and its age never flicker. An attempt at an HTTP
//!   server that is down ends after 10 s, so that one that hangs does not put off the one that would succeed.
//! - **A shared link declares all that clients can be asked**, whatever the one that calls can: what a server may ask is
//!   agreed once for all. So it may list more tools than it would to some of them, and asking those fails by itself.
//! - **Subscriptions ride on the keeper's link**, also where sessions have links of their own: a hundred clients are one
//!   subscription. A server that tells of changes only to the session which made them is not heard that way.
//! - **What may come twice is sent twice**: where a used connection breaks under a notification, a list or a subscription,
//!   that is sent again on another. Calls never are, unless they provably were not sent.
//! - **The title goes before descriptions only where the file gives one**: without it a list is equal to the servers' own
//!   but for names.
//! - **The link is an enum, not a parameter.** [`transport::Link`] hides HTTP and stdio behind one door; no type above it
//!   is generic. Tests use real servers on loopback and real children instead of a fake link.
//! - **The listing lives in the upstream**, written by its keeper. The fleet turns it into a [`catalog::Part`] and keeps
//!   that until listing or settings differ; building the catalog joins parts and parses nothing, and a view whose parts
//!   and rules are as before keeps its lists.
//! - **Lists read otherwise to others in two things only**: the era, and whether a client shows pages of tools
//!   ([`catalog::Audience`]). Each text is written at its first reading, and shared by all to whom it reads the same.
//! - **Tools, prompts, resources and templates go one way**, from the item of a listing to the menu of a view. Two things
//!   differ: names or URIs, and which filters apply.
//! - **Templates are matched twice**: as RFC 6570 expands them, then as servers read them in practice, who take anything
//!   but `/` for a value. Strict only, we would refuse URIs that their server answers.
//! - **The snapshot holds the configuration, too**: what a request needs of it comes from the same moment.
//! - **Refusals are told in two rooms.** [`relay::Refusal`] has the JSON-RPC errors, one exhaustive match. What is
//!   refused for HTTP's sake (path, media type, size, session) is `front`'s, which alone knows statuses.
//! - **A principal is a text**, issuer and subject, for all but `auth`: what binds to it only compares. Where callers need prove
//!   nothing there is none, and nothing is paid for it.
//! - **A snapshot of one caller is told apart by the listings in it**, not by who he is: a mistake in the key of a cache cannot
//!   show one caller what another has listed.
//! - **What is wrong for one caller is his own affair**: only a server that cannot be reached at all slows the attempts of others
//!   down, where the settings are filled in by callers.
//! - **The first connection shows whether a server keeps something per session**, where nobody has met it before: then that
//!   connection is given up, and everybody gets his own.
//! - **A session knows its view as text.** `session` and `catalog` are on one floor, and a sealed id holds text anyway.
//! - **`mcp` and `config` use hyper's types for header names, header values and addresses**: plain values, checked once
//!   when they are read. A second set of them would buy nothing.
//! - **Sizes, counts and times of the whole process stand under `limits:`** in the file, as [`config::Limits`], so that a
//!   server's own keys never look like them. They are read at the start and hold until a restart.
//! - **The YAML parser gives events with places**, not values: only so is every problem told at once with its line. The
//!   keys stand in one table, from which parser and schema are both made.
//! - **A call's legs stand beside its read loop**, in a list that most calls never fill: no task, no channel and no
//!   allocation where nothing is asked.
//! - **A page that a legacy server wants opened first (-32042) is asked for in a held call**, not by a state that only says
//!   "make it again": the server may know of the page on this link alone, and a modern client's next request can get
//!   another one.
//! - **As many held calls as there may be is judged where one first asks**, and then the question fails, not the call: so
//!   the server says what it can do without.
//! - **Wishes are leases that a session holds** (subscriptions, levels, links): whatever ends the session ends them, and
//!   `session` need not know what they are.
//! - **Ids of tasks are names**, always the same for the same task: server and id sealed with a key of their own. So a task
//!   is found without a table, by any replica, and nobody can ask for one that he was not given. What a session started is
//!   remembered besides, for the list and for what is told of a task.
//! - **A task asks only while somebody waits for its result** (2025-11-25), and a client of the newer era does not wait: it
//!   looks. So we wait in its place, while it does. Who listens to a task is told by looks of ours, which work for servers of
//!   both eras and over any transport, where a stream of the server's would for some.
//! - **A tool's result goes as its listed schema says**, not as it looks: where the schema was wrapped for clients that know
//!   only objects, so is every result.
//! - **URIs that results name are remembered**, some per server: servers hand out links to what they never list.
//! - **A client that never named a level hears log messages from `info` on**: where several share a connection, another
//!   client's wish for debugging is not its.
//! - **Sessions are the core's word for clients, also where there are none.** A guest costs one allocation, and everything
//!   that a call needs of its client (what it can be asked, what it wants of the log, what is in flight, what ends with it)
//!   works without a second way. The price: `session` has a flag for it, which few read.
//! - **A parked call is polled**, by a task of its own: so it hears when its server withdraws a question or ends the call, and
//!   stops when its time is over, and a retry takes back the call itself rather than talking to it.
//! - **A call costs the gate two additions and two looks**: the breaker is one number, whose flags say whether anything is
//!   held against the server, and whose upper part is the round. Lock and clock are for those who find a flag set.
//! - **A success forgives**: only failures in a row count, so one bad tool of a server in use does not stop the others.
//! - **Errors in JSON-RPC are no failures**: whoever can say what is wrong is there.
//! - **Each kind is listed for itself**: a server whose resources cannot be listed has its tools all the same.
//! - **A tool that the server no longer lists is unknown, not away**: it is there, and says so; -32602 makes clients list again.
//! - **Questions with odd params are refused, not fatal**: the reader of server messages takes them, and whoever would carry
//!   them to a client answers -32602.
//! - **What a server calls unreadable or unknown is told as its own error** (-32603 with its name): -32700, and in views of
//!   several servers -32601, would read as if the client had been wrong. A direct connection would say the latter as well, so
//!   a server's own view hands it on.
//! - **No probe kills a child.** One that is silent when asked for its revisions is sent `initialize` as well, and whichever is
//!   answered counts: a slow start costs nothing twice. One that ends at the question is started again the other way, and that
//!   is remembered.
//! - **Modern clients share the keeper's link**, also of a server that gives sessions, or have one together with all of their
//!   principal where callers are known: they have no stay for which it could keep
//!   anything. `interactive: true` gives each call one of its own, for as long as it is held.
//! - **Answers that are being sent count as memory, and are never refused for it**: they are there already. What is refused
//!   is the next large thing, from a client or a server. So the budget can be exceeded by what was under way.
//! - **A client takes no more places than it leaves**: with `own` calls in flight it gets another only while more than
//!   `own` places are free. That shares them without a table of clients; a client is a session, and one without sessions
//!   a connection, which has a limit of its own.
//! - **A head with two lengths is refused by us, not by hyper**, which takes one and closes after the answer: something
//!   before us may have taken the other. It is seen in the raw bytes, since hyper hides it.
//! - **Header limits are checked twice**: hyper has to read more than they allow to be able to say which was too long.
//! - **Large answers go into HTTP/2 in pieces**: what is in its own queue can wait for a window for ever, unseen.
//! - **Which version of HTTP a client speaks is seen in the socket before anything is read**: idle streams cost half.
//! - **A connection that ends is looked at, not asked**: after GOAWAY an idle client owes us nothing, and hyper would wait.
//! - **Descriptors, not connections, run out first**: accepting then rests, and nobody is cut.
//! - **What was missed is forgotten with the snapshot.** The relay remembers for ten seconds for which unknown tools it
//!   asked a server again; a reconnect, a changed list and a reload each publish a snapshot, so none of them needs to
//!   tell it.

pub mod app;
pub mod auth;
pub mod catalog;
pub mod clock;
pub mod config;
pub mod fleet;
pub mod front;
pub mod mcp;
pub mod memory;
pub mod metrics;
pub mod names;
pub mod relay;
pub mod session;
pub mod transport;
pub mod upstream;
pub mod wire;
