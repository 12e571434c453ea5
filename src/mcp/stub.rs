use super::Level;
use crate::wire::{Message, Span};
use bytes::Bytes;
use hyper::header::HeaderValue;
use std::borrow::Cow;
#[derive(Debug, Clone)]
pub struct Envelope {
    pub revision: Box<str>,
    pub capabilities: Span,
    pub client: Option<Span>,
    pub level: Option<Level>,
    pub token: Option<Span>,
}
impl Envelope {
    pub fn read(_: &Message) -> Option<Result<Self, String>> {
        None
    }
}
pub fn missing_envelope(_: &Message) -> String {
    String::new()
}
pub type Shown = std::sync::Arc<[(Box<str>, Box<str>)]>;
pub fn decode_header(_: &[u8]) -> Result<Cow<'_, str>, String> {
    Err(String::new())
}
pub fn encode_header(_: &str) -> HeaderValue {
    HeaderValue::from_static("")
}
pub fn named_by(_: &str) -> Option<&'static str> {
    None
}
pub fn discover_result(_: &str, _: &str, _: u64, _: &str) -> String {
    String::new()
}
#[derive(Debug, Default)]
pub struct Filter {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub uris: Vec<Box<str>>,
    pub tasks: Vec<Box<str>>,
}
impl Filter {
    pub fn parse(_: &str) -> Result<Self, String> {
        Err(String::new())
    }
}
pub fn acknowledged(_: &Filter, _: &[u8]) -> Bytes {
    Bytes::new()
}
pub fn tagged(_: &Message, _: &[u8]) -> Bytes {
    Bytes::new()
}
pub fn ended(_: &[u8]) -> Bytes {
    Bytes::new()
}
