//! The values that labels can take. All sets are closed, so no peer can make the number of series grow.

/// An enum whose variants are the values of one label.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$what])* $value,)+ }

        impl $name {
            /// Every value, in the order of their numbers.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// The value as it stands in the text.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    };
}

labels! {
    /// What was asked of a server: the methods that can reach one, and one value for all others.
    Method {
        /// A tool's call.
        ToolsCall = "tools/call",
        /// A page of the tools.
        ToolsList = "tools/list",
        /// A prompt.
        PromptsGet = "prompts/get",
        /// A page of the prompts.
        PromptsList = "prompts/list",
        /// A resource's contents.
        ResourcesRead = "resources/read",
        /// A page of the resources.
        ResourcesList = "resources/list",
        /// A page of the resource templates.
        ResourceTemplatesList = "resources/templates/list",
        /// Wishes to hear of a resource's changes.
        ResourcesSubscribe = "resources/subscribe",
        /// No longer wishes to.
        ResourcesUnsubscribe = "resources/unsubscribe",
        /// Values for an argument.
        CompletionComplete = "completion/complete",
        /// Which log messages to send.
        LoggingSetLevel = "logging/setLevel",
        /// The handshake.
        Initialize = "initialize",
        /// Whether the server is there.
        Ping = "ping",
        /// Any other.
        Other = "other",
    }
}

impl Method {
    /// The label of a method as it stands in a message.
    pub fn of(method: &str) -> Self {
        Self::ALL.into_iter().find(|known| known.label() == method).unwrap_or(Self::Other)
    }
}

labels! {
    /// How a request to a server ended.
    Outcome {
        /// With a result.
        Ok = "ok",
        /// With a result that says `isError`.
        ToolError = "tool_error",
        /// With a JSON-RPC error of the server.
        RpcError = "rpc_error",
        /// With our own answer in place of a server that is away.
        Stub = "stub",
        /// With no answer in time.
        Timeout = "timeout",
        /// The client no longer wants it.
        Cancelled = "cancelled",
        /// With the link lost or the answer unreadable.
        Failed = "failed",
    }
}

labels! {
    /// What became of a call that asked a client without a session something.
    Held {
        /// It went on to its end.
        Ended = "ended",
        /// The client did not come back in time.
        Abandoned = "abandoned",
        /// The client hung up.
        Cancelled = "cancelled",
        /// It was ended, to be made again with the answers.
        Replayed = "replayed",
        /// There was no room, and its server was told so.
        Refused = "refused",
    }
}

labels! {
    /// Where the connection to a server stands.
    State {
        /// Nobody has needed it yet.
        Idle = "idle",
        /// An attempt is under way.
        Connecting = "connecting",
        /// Calls go through.
        Ready = "ready",
        /// Lost, or never made.
        Down = "down",
        /// It answers, and wants credentials that we lack.
        NeedsAuthorization = "needs_authorization",
    }
}

labels! {
    /// Whether a server that fails calls gets any.
    BreakerState {
        /// It gets them.
        Closed = "closed",
        /// It gets none.
        Open = "open",
        /// It gets one, to see how that ends.
        HalfOpen = "half_open",
    }
}

labels! {
    /// What of a server was dropped.
    Dropped {
        /// An answer, or progress, that no call waits for.
        Stray = "stray",
        /// A line or event that is no message.
        Unreadable = "unreadable",
        /// A message that nobody read in time.
        Overflow = "overflow",
    }
}

labels! {
    /// Why a call was not even given to a server that is connected.
    Turned {
        /// It has as many as it may.
        Full = "full",
        /// It has failed the last ones.
        Breaker = "breaker",
        /// It asked for a pause.
        RetryAfter = "retry_after",
    }
}

labels! {
    /// Why a client's request went no further than our door.
    Rejection {
        /// No such path.
        Path = "path",
        /// An HTTP method that the path does not have.
        Method = "method",
        /// A `Host` that we do not go by.
        Host = "host",
        /// A web page from elsewhere.
        Origin = "origin",
        /// No or wrong credentials.
        Unauthenticated = "unauthenticated",
        /// Right credentials, without the right.
        Forbidden = "forbidden",
        /// A body that is no JSON, or an `Accept` without anything that we can write.
        Media = "media",
        /// A body or headers beyond the limit.
        TooLarge = "too_large",
        /// A body that took too long to arrive.
        TooSlow = "too_slow",
        /// No JSON-RPC message.
        Malformed = "malformed",
        /// No session id, or none that we know.
        Session = "session",
        /// As many sessions as there may be, all active.
        SessionsFull = "sessions_full",
        /// As many calls or streams as there may be.
        Busy = "busy",
        /// As many bytes held in memory as there may be.
        Memory = "memory",
        /// One of us.
        Bug = "bug",
        /// A revision that we do not speak.
        Revision = "revision",
        /// A header that does not repeat what the body says.
        Header = "header",
        /// On the way out.
        Draining = "draining",
    }
}

labels! {
    /// What became of a client that came back for the rest of a stream.
    Resumption {
        /// It got it.
        Resumed = "resumed",
        /// There was no more.
        Nothing = "nothing",
        /// Its place was lost, and it was told to look at everything again.
        Anew = "anew",
        /// The rest was no longer kept.
        Gone = "gone",
    }
}

labels! {
    /// Why we closed a client's connection.
    Closed {
        /// As many as there may be.
        Full = "full",
        /// No request came in time, or none for too long.
        Silent = "silent",
        /// What it is sent was not read.
        Unread = "unread",
        /// Frame after frame without anything in them.
        Flood = "flood",
        /// No TLS, or not in time, or with a certificate that we do not take.
        Handshake = "handshake",
        /// A protocol error, or headers beyond the limits.
        Protocol = "protocol",
    }
}
