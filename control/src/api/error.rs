//! What the API answers when it cannot do what was asked: a status, and `{"error": "..."}`.

use crate::gateway::GatewayError;
use crate::view::{FilterError, Silent};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// An error as the API answers it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApiError {
    /// The HTTP status.
    #[serde(skip)]
    pub status: u16,
    /// What is wrong and what to do, as text.
    pub error: String,
    /// The same, one finding each, where there may be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// What else was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, error: impl ToString) -> ApiError {
        ApiError {
            status: status.as_u16(),
            error: error.to_string(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

impl From<Silent> for ApiError {
    fn from(silent: Silent) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, silent)
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> ApiError {
        let status = match error {
            FilterError::NoService(_) => StatusCode::NOT_FOUND,
            FilterError::Address { .. } => StatusCode::BAD_REQUEST,
        };
        ApiError::new(status, error)
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> ApiError {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let status = match &error {
            GatewayError::NoService(_) | GatewayError::NoServer(_) => StatusCode::NOT_FOUND,
            GatewayError::Stuck { .. } => StatusCode::SERVICE_UNAVAILABLE,
            GatewayError::Config(found) => {
                errors.extend(found.errors.iter().map(ToString::to_string));
                warnings.extend(found.warnings.iter().map(ToString::to_string));
                StatusCode::UNPROCESSABLE_ENTITY
            }
            GatewayError::NotLive(obstacles) => {
                errors.clone_from(obstacles);
                StatusCode::UNPROCESSABLE_ENTITY
            }
            GatewayError::Model(error) => {
                errors.push(error.to_string());
                StatusCode::UNPROCESSABLE_ENTITY
            }
        };
        ApiError {
            errors,
            warnings,
            ..ApiError::new(status, error)
        }
    }
}
